"""Answers to what a user asks: one prompt at a time, sampled as the model's run samples."""
