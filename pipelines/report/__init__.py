"""Reports of a run: events, progress, metrics."""
