"""The kinds of access rules that `api/access.py` consists of."""
