"""The archive of a topic: every committed record, in a Delta table that belongs to the brokers."""
