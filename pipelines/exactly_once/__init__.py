"""The offset chain: committed offsets, the start of a run, and reasons to refuse a batch. Pure."""
