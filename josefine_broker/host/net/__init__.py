"""Clients' connections, and the admin listener."""
