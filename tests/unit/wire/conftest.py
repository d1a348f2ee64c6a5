"""Hypothesis without its time limit per example: it measures a busy machine, not our code."""

from hypothesis import settings

settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")
