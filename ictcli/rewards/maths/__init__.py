"""Whether two mathematical answers are the same: layout, structure, numbers, units, algebra."""
