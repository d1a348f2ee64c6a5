"""The request handlers: one file per API key, and `api/table.py`, which attaches each to its row.

A file has two functions, `handle` and `refuse`. Shared code is in `shared/`, decisions are in the
engine.
"""
