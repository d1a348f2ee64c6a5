"""Limits of clients and of the machine: descriptors, connections, memory, quotas, logins. Pure."""
