"""The transaction coordinator (KIP-98): pure decisions; `engine/coordinators/transactions_host.py`
hosts it."""
