"""Modules do not lean on another having been imported before them, as a plugin's first line may."""

import subprocess
import sys

SCRIPT = """
import importlib, pkgutil, sys, ictcli
names = [module.name for module in pkgutil.walk_packages(ictcli.__path__, "ictcli.")]
for name in names:
    if name == "ictcli.__main__":
        continue
    for loaded in [loaded for loaded in sys.modules if loaded.startswith("ictcli")]:
        del sys.modules[loaded]
    try:
        importlib.import_module(name)
    except ImportError as error:
        print(name, error)
"""


def test_every_module_can_be_imported_first() -> None:
    found = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    assert found.stdout == ""
