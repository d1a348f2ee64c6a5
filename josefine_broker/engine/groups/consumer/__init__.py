"""Groups of the consumer protocol (KIP-848): the coordinator assigns, and each member is brought to
its assignment by itself, in heartbeats."""
