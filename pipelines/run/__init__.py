"""One run: preparation, start, queries, their end."""
