"""The data directory and its files: identity, open descriptors, synced positions."""
