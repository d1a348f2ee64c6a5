"""This broker among the others: peers, messages, joining, and its own membership."""
