"""Decide whether two mathematical answers are equal, in layout, structure, numbers and algebra."""
