"""What answers clients: one file per API key, and `api/table.py`, which attaches each to its row.

A file has two functions, `handle` and `refuse`. What several of them share, and what decides, is
below, in `shared/` and in the engine.
"""
