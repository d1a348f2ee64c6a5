"""Limits of the machine: file descriptors, and who may connect when there is no room. Pure."""
