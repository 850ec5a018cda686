"""How much memory a run will take, by part, before anything is loaded."""
