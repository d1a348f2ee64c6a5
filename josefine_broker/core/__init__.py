"""Everything that decides: synchronous, no files, sockets, clocks or randomness of its own."""
