"""The I/O side of the broker, without decisions: sockets, files, clocks, metrics."""
