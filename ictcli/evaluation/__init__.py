"""Evaluation: unbiased pass@k with intervals over problems."""
