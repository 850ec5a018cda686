"""What a run trained, as a folder for others: adapters or a whole model, with its card."""
