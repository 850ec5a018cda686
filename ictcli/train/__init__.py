"""Training: the loop, its steps, and how a run is started."""
