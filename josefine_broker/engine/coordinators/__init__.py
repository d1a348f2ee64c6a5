"""Hosts of the group and transaction coordinators: loading, writing their topics, timers."""
