"""The value formats: bytes to columns, with the reason for each bad value."""
