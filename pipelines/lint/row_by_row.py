"""Parts of a SELECT that are not row by row, found with sqlglot, for `lint`.

Only certain errors are reported: what sqlglot cannot parse, and a table that is in a database, is
left to `plan` and `run`, which ask Spark (`transforms/row_by_row.py`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping

from sqlglot import exp

from pipelines.lint.sql_columns import Finding, parsed
from pipelines.transforms.row_by_row import (
    CONSTANTS,
    JOIN,
    SUBQUERY,
    TABLE_ROWS,
    WORDS,
    why_refused,
)

_CLAUSES = {
    "group": ("Aggregate", r"\bgroup\s+by\b"),
    "having": ("Aggregate", r"\bhaving\b"),
    "distinct": ("Distinct", r"\bdistinct\b"),
    "limit": ("GlobalLimit", r"\blimit\b"),
    "offset": ("Offset", r"\boffset\b"),
    "order": ("Sort", r"\border\s+by\b"),
    "sort": ("Sort", r"\bsort\s+by\b"),
}
"""Clause of a SELECT, as sqlglot names it → Spark's operator, and the keyword in the SQL."""
_QUERIES = (exp.Select, exp.SetOperation, exp.Subquery, exp.Values)


def row_by_row_findings(sql: str, tables: Collection[str]) -> tuple[Finding, ...]:
    """What in a transform's SELECT needs more than one row. `tables`: its lookup tables."""
    query = parsed(sql)
    if not isinstance(query, _QUERIES):
        return ()
    return tuple(dict.fromkeys(_Statement(sql, query, tables).findings(query)))


class _Statement:
    """The rules over one parsed statement."""

    def __init__(self, sql: str, query: exp.Expr, tables: Collection[str]) -> None:
        self._sql = sql
        self._tables = {name.lower(): name for name in tables}
        self._named: Mapping[str, exp.Expr] = {
            each.alias.lower(): each.this for each in query.find_all(exp.CTE)
        }
        self._seen: set[str] = set()

    def findings(self, query: exp.Expr) -> Iterator[Finding]:
        """The findings of a query that must be row by row over the stream."""
        if isinstance(query, exp.SetOperation):
            yield from self._of_set_operation(query)
        elif not self._reads_stream(query):
            yield self._found(TABLE_ROWS if self._reads_table(query) else CONSTANTS, query)
        elif isinstance(query, exp.Subquery):
            yield from self.findings(query.this)
        elif isinstance(query, exp.Select):
            yield from self._of_clauses(query)
            yield from self._of_sources(query)
            yield from self._of_expressions(query)

    def _of_set_operation(self, query: exp.SetOperation) -> Iterator[Finding]:
        kind = type(query).__name__
        if not isinstance(query, exp.Union):
            yield self._found(WORDS.get(kind, kind), query, rf"\b{kind}\b")
        elif query.args.get("distinct"):
            yield self._found(WORDS["Distinct"], query, r"\bunion\b")
        else:
            yield from self._of_limits(query)
            yield from self.findings(query.left)
            yield from self.findings(query.right)

    def _of_clauses(self, select: exp.Select) -> Iterator[Finding]:
        yield from self._of_limits(select)
        calls = list(_own(select))
        for window in (each for each in calls if isinstance(each, exp.Window)):
            yield self._found(WORDS["Window"], window)
        aggregates = (
            each
            for each in calls
            if isinstance(each, exp.AggFunc)
            and each.find_ancestor(exp.Window, exp.Select) is select
        )
        if not select.args.get("group"):
            for aggregate in aggregates:
                yield self._found(WORDS["Aggregate"], aggregate)

    def _of_limits(self, query: exp.Expr) -> Iterator[Finding]:
        for name, (kind, keyword) in _CLAUSES.items():
            clause = query.args.get(name)
            if isinstance(clause, exp.Expr):
                yield self._found(WORDS[kind], clause, keyword)

    def _of_sources(self, select: exp.Select) -> Iterator[Finding]:
        streams = [each for each in _sources(select) if self._reads_stream(each)]
        if len(streams) > 1:
            yield self._found(JOIN, streams[1])
        for each in streams:
            if each.args.get("sample"):
                yield self._found(WORDS["Sample"], each, r"\btablesample\b")
            if isinstance(each, exp.Subquery):
                yield from self.findings(each.this)
            name = each.name.lower()
            if isinstance(each, exp.Table) and name in self._named and name not in self._seen:
                # Once each: a named query may have the name of an input that it reads.
                self._seen.add(name)
                yield from self.findings(self._named[name])

    def _of_expressions(self, select: exp.Select) -> Iterator[Finding]:
        for each in _own(select):
            if isinstance(each, _QUERIES) and self._reads_stream(each):
                yield self._found(SUBQUERY, each)

    def _reads_stream(self, query: exp.Expr) -> bool:
        """Whether a query may read an input that is not a lookup table, also in a subquery."""
        return any(name not in self._tables for name in self._read(query, frozenset()))

    def _reads_table(self, query: exp.Expr) -> bool:
        return any(name in self._tables for name in self._read(query, frozenset()))

    def _read(self, query: exp.Expr, above: frozenset[str]) -> Iterator[str]:
        """The tables that a query reads, through the named queries of WITH."""
        for table in query.find_all(exp.Table):
            name = table.name.lower()
            if not isinstance(table.this, exp.Identifier):
                continue  # a function, such as range(10)
            if name in above or name not in self._named:
                yield name
            else:
                yield from self._read(self._named[name], above | {name})

    def _found(self, word: str, part: exp.Expr, keyword: str = "") -> Finding:
        """The finding at its keyword, if the SQL has it once, or at the first name of the part."""
        places = [each.start() for each in re.finditer(keyword, self._sql, re.IGNORECASE)]
        if not keyword or len(places) != 1:
            starts = (each.meta.get("start") for each in part.walk())
            places = [int(start) for start in starts if start is not None]
        index = min(places, default=0)
        return Finding(index, why_refused(word, tuple(self._tables.values())))


def _sources(select: exp.Select) -> Iterator[exp.Expr]:
    """What FROM and the joins of a SELECT name."""
    clause = select.args.get("from_")
    if clause is not None:
        yield clause.this
    for join in select.args.get("joins") or []:
        yield join.this


def _own(select: exp.Select) -> Iterator[exp.Expr]:
    """The expressions of a SELECT, without those of the queries in it, which come as one each."""
    waiting: list[exp.Expr] = []
    for name, part in select.args.items():
        if name not in ("with_", "from_", "joins"):
            waiting += [
                each
                for each in (part if isinstance(part, list) else [part])
                if isinstance(each, exp.Expr)
            ]
    waiting += [each.args["on"] for each in select.args.get("joins") or [] if each.args.get("on")]
    while waiting:
        each = waiting.pop()
        yield each
        if not isinstance(each, _QUERIES):
            waiting.extend(each.iter_expressions())
