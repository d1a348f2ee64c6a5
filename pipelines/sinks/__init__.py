"""Sink targets: the tables and topics that a sink commits to."""
