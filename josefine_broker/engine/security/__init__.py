"""Who clients are: decided without I/O."""
