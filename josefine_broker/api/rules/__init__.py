"""Who may ask what: the kinds of rules of which `api/access.py` is made."""
