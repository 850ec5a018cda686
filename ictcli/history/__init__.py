"""What runs left on disk, read without an engine: listing them, one in full, several side by side.

Nothing here opens, locks or mends a run, so that a run under way can be looked at. A file that is
missing or damaged is a gap or a note, never an error: people look at runs because one broke.
"""
