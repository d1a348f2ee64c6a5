"""Authentication and authorization of clients, without I/O."""
