"""Construction of a broker's parts from its configuration; `node.py` calls them in order."""
