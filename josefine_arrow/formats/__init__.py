"""The value formats, one folder each."""
