"""A broker's configuration: typed sections, where their values come from, how they are checked."""
