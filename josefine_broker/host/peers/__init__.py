"""Connections to and from other brokers."""
