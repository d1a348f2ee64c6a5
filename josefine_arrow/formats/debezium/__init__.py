"""Debezium's envelope of a change."""
