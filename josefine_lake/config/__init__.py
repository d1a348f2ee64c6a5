"""The configuration of table topics, and who writes which of them. Pure."""
