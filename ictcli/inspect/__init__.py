"""The signature view: a group of rollouts token by token, with what each method keeps of it.

`record` finds and reads what a run recorded, `choices` asks each method, `candidates` asks the
model, `view` joins them for one prompt, and `page` writes that as one HTML file.
"""
