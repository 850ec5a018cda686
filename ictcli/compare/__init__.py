"""Compare methods by runs with the same problems, seeds and budget."""
