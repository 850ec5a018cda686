"""Recorded rollouts token by token, and what each method keeps of them.

`recorded` reads a recorded step, `selections` asks each method, `candidates` asks the model, and
`view` joins them into a `group`: the data that the terminal, the text, --json and the `page` paint.
`session` serves one call of the command.
"""
