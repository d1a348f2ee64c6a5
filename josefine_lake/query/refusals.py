"""The error of a query that is not answered, because its answer would not be exact."""

from __future__ import annotations


class QueryError(Exception):
    """One sentence or two: what is wrong, where, and what to do."""
