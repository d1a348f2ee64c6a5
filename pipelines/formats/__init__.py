"""Bytes of a value to columns, with the reason for each bad one."""
