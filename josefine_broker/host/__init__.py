"""Everything that touches the world and decides nothing: sockets, files, clocks, metrics."""
