"""The transaction coordinator (KIP-98): pure decisions. Its host is
`engine/coordinators/transactions_host.py`."""
