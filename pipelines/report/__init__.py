"""What a run reports: events, progress, metrics."""
