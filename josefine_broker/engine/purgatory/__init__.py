"""Requests that wait: for partitions, for answers, for a deadline (Kafka's delayed operations)."""
