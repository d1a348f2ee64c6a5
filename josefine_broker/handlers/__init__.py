"""One file per API key; handlers/table.py is the only registration. Handlers see ports only."""
