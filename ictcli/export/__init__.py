"""Exports of a run for others: adapters or a whole model, with a model card."""
