"""Estimates of a run's memory and time, and checks of its recipe, before a model is loaded."""
