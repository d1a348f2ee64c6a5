"""A broker's configuration: typed sections, the sources of values, and their validation."""
