"""`python -m ictcli` is the `ictcli` command."""

from ictcli.cli import main

if __name__ == "__main__":
    main()
