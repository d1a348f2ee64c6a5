"""Sockets to and from other brokers."""
