"""Property tests give the same examples every time, and a slow machine is no failure."""

from hypothesis import settings

settings.register_profile("outrider", deadline=None, derandomize=True)
settings.load_profile("outrider")
