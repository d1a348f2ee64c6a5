"""What brokers, members and checkers of a simulated world agree upon about consumer groups."""

__all__ = [
    "CONSUMERS",
    "CONSUMER_BEAT_MS",
    "CONSUMER_SESSION_MS",
    "INSTANCES",
    "LETTERS",
    "MIRRORED",
    "SHARERS",
    "SHARE_DELIVERIES_MAX",
    "SHARE_LOCK_MS",
]

CONSUMERS = "consumers"
"""The group of the consumer protocol,"""
INSTANCES = (None, None, "three")
"""and its members, by the names of those that are static."""
CONSUMER_SESSION_MS, CONSUMER_BEAT_MS = 1_500, 250
"""What brokers say to its members."""

SHARERS = "sharers"
"""The share group,"""
LETTERS = "dlq.letters"
"""and the topic of its dead letters."""
MIRRORED = "mirrored"
"""The topic that a mirror writes."""
SHARE_LOCK_MS, SHARE_DELIVERIES_MAX, SHARE_LOCKS_MAX = 1_000, 4, 40
"""What its members may do with records."""
