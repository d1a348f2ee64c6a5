"""This broker among the others: who they are, what is said, how it joins, its own place."""
