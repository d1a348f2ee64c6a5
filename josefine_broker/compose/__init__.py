"""The parts of one broker put together from its configuration; `node.py` calls them in order."""
