"""Exports of a run to share: adapters or a whole model, with a model card."""
