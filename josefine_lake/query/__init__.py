"""Queries in SQL over the table of a topic and the records that its table has not yet."""
