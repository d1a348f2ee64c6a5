"""Lines of comma-separated values (RFC 4180)."""
