"""Value formats: one folder each."""
