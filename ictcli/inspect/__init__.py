"""Recorded rollouts token by token, and what each method keeps of them.

`recorded` reads a recorded step, `selections` asks each method, `candidates` asks the model,
`view` joins them, `session` serves one call of the command, and `page` writes an HTML file.
"""
