"""Partition logs in files: segments, indexes, recovery, retention, the log cleaner."""
