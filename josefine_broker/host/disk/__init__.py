"""The data directory and its files: whose it is, what is open, how far it is synced."""
