"""Inspection commands: they examine a pipeline without running it."""
