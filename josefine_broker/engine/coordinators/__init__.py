"""The hosts of the group and transaction coordinators: loading, topic writes, timers."""
