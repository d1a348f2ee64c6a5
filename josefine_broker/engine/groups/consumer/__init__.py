"""Groups of the consumer protocol (KIP-848): the coordinator assigns partitions, and each member
moves to its assignment by itself, through its heartbeats."""
