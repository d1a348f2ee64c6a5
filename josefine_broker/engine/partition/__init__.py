"""One replica of a partition: its state, its limits, its fetches, the care of its log. Pure."""
