"""The purgatory: requests that wait for partitions, answers or a deadline (delayed operations)."""
