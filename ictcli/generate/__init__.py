"""Sampling answers to a user's prompts, one at a time, with the settings of the model's run."""
