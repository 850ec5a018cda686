"""A busy machine is slow, not wrong: no example of a property test has a deadline."""

from hypothesis import settings

settings.register_profile("no_deadline", deadline=None)
settings.load_profile("no_deadline")
