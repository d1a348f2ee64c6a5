"""One replica of a partition: what may be written, read, believed, kept. Pure."""
