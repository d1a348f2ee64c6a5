"""Validation of produced batches: the check of one, and the queue of those that take long."""
