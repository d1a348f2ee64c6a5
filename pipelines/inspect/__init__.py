"""Commands that look at a pipeline without running it."""
