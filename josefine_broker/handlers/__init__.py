"""One file per API key, and beside them what several share, or what followers and controller do.

`handlers/table.py` is the only registration. Handlers see ports only.
"""
