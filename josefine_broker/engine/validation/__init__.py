"""Validation of produced batches: the checks of one batch, and the queue of slow ones."""
