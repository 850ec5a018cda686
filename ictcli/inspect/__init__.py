"""Recorded rollouts token by token, and what each method keeps of them.

`recorded` reads a recorded step, `view` asks each method, and both are joined into a `group`: the
data that the terminal, the text, --json and the `page` paint.
"""
