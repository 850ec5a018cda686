"""Training: the loop, its steps, and the start and end of a run."""
