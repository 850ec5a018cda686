"""Showing recorded rollouts token by token, with the tokens that each method keeps.

`recorded` reads a recorded step, `view` applies each method to it, and `group` defines the data of
the rollouts of one prompt, which the terminal, the text, --json and the HTML `page` show."""
