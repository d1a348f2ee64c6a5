"""The tables and topics that a sink commits to."""
