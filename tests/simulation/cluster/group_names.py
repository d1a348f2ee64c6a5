"""What brokers, members and checkers of a simulated world agree upon about consumer groups."""

__all__ = ["CONSUMERS", "CONSUMER_BEAT_MS", "CONSUMER_SESSION_MS", "INSTANCES"]

CONSUMERS = "consumers"
"""The group of the consumer protocol,"""
INSTANCES = (None, None, "three")
"""and its members, by the names of those that are static."""
CONSUMER_SESSION_MS, CONSUMER_BEAT_MS = 1_500, 250
"""What brokers say to its members."""
