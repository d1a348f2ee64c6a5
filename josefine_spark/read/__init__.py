"""The source: offsets of a micro-batch, its input partitions, their rows."""
