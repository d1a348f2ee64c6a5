"""The offset chain: what was committed, where a run starts, what is refused. Pure."""
