"""The transaction coordinator (KIP-98): pure decisions; `engine/transacting.py` hosts it."""
