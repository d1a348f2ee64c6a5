"""Column resolver of a SELECT: its output columns, and unknown names, by sqlglot without Spark.

Only certain errors are reported. A table whose columns are not all known (a function in FROM, a
LATERAL VIEW, an expression without a name) is open: a name that it may have is never an error.
Spark makes the final check in `plan`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, SqlglotError

from pipelines.config.section import nearest

_TOLD_MAX = 12
"""Maximum of listed names if none is similar."""

_WITHOUT_PARENTHESES = frozenset(
    {"all", "current_time", "grouping__id", "localtimestamp", "session_user", "user"}
)
"""Names that look like columns but are functions, or keywords of GROUP BY and ORDER BY."""

_FIRST_WINDOW = re.compile(r"(\bgroup\s+by\s+)window(?=\s*\()", re.IGNORECASE)
"""sqlglot parses this name as the clause WINDOW. The replacement has the same length, so that every
position stays valid."""
_WINDOWS = {"window": "window", "w_ndow": "window", "session_window": "session_window"}
"""Function of GROUP BY → the column that it makes."""

_ALIKE = (exp.Select, exp.SetOperation, exp.Subquery)


@dataclass(frozen=True, slots=True)
class Columns:
    """Lower-case name → its type, if that has fields; `is_open`: there may be other columns.

    A type is None where it is not known, and `SCALAR` where it has no fields. `kind` is the name of
    a type, such as BIGINT, if it is known. `origin`: the field of a source whose value a scalar is,
    if somebody asks for it.
    """

    names: Mapping[str, Columns | None] = field(default_factory=dict)
    is_open: bool = False
    twice: tuple[str, ...] = ()
    kind: str = field(default="", compare=False)
    origin: str = ""

    @property
    def is_scalar(self) -> bool:
        """Whether it certainly has no fields."""
        return not self.names and not self.is_open


SCALAR = Columns()
OPEN = Columns(is_open=True)


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem at `index` of the SQL."""

    index: int
    message: str


def columns_of_ddl(ddl: str) -> Columns:
    """The columns of an SQL schema; open if sqlglot cannot parse it."""
    try:
        kind = sqlglot.parse_one(f"struct<{ddl}>", into=exp.DataType, read="spark")
    except SqlglotError:
        return OPEN
    return _fields(kind) or OPEN


def columns_of_select(
    sql: str, tables: Mapping[str, Columns]
) -> tuple[Columns, tuple[Finding, ...]]:
    """The output columns of a SELECT over these tables, and its problems."""
    query = parsed(sql)
    if isinstance(query, Finding):
        return OPEN, (query,)
    if not isinstance(query, _ALIKE):
        if isinstance(query, exp.Values):
            return OPEN, ()
        return OPEN, (Finding(0, "expected a SELECT over the inputs, by their names"),)
    found = _Query(tables)
    columns = found.columns(query, {name.lower(): each for name, each in tables.items()}, ())
    return columns, tuple(sorted(set(found.findings), key=lambda each: each.index))


@lru_cache(maxsize=1_000)
def parsed(sql: str) -> exp.Expr | Finding:
    """The statement, cached: environments repeat the SQL. Databricks' dialect parses `a:b`."""
    if not sql.strip():
        return Finding(0, "expected a SELECT over the inputs, by their names")
    read = _FIRST_WINDOW.sub(r"\1w_ndow", sql)
    try:
        return sqlglot.parse_one(read, read="spark")
    except SqlglotError as error:
        first = error
    try:
        return sqlglot.parse_one(read, read="databricks")
    except SqlglotError:
        return _unreadable(sql, first)


def _unreadable(sql: str, error: SqlglotError) -> Finding:
    if not isinstance(error, ParseError) or not error.errors:
        quote = next((each for each in "'\"`" if sql.count(each) % 2), None)
        index = sql.rfind(quote) if quote else 0
        return Finding(index, f"SQL that cannot be read{f': no end of {quote}' if quote else ''}")
    first = error.errors[0]
    near = str(first.get("highlight") or "")
    lines = sql.split("\n")
    # sqlglot's column is that of the token's last character, counted from 1.
    line, column = int(first["line"] or 1) - 1, int(first["col"] or 1) - len(near)
    index = sum(len(each) + 1 for each in lines[:line]) + max(0, column)
    return Finding(min(index, len(sql)), f"SQL that cannot be read near `{near}`")


def _fields(kind: exp.Expr | None) -> Columns | None:
    """The fields of a type; an array has those of its elements, as in Spark."""
    if not isinstance(kind, exp.DataType):
        return None
    if isinstance(kind.this, exp.Interval):
        return Columns(kind="INTERVAL")
    if kind.is_type("struct"):
        fields: dict[str, Columns | None] = {}
        for each in kind.expressions:
            if not isinstance(each, exp.ColumnDef):
                return None
            fields[each.name.lower()] = _fields(each.args.get("kind"))
        return Columns(fields, kind="STRUCT")
    if kind.is_type("array"):
        element = kind.expressions[0] if kind.expressions else None
        below = _fields(element)
        return replace(below if below and below.names else OPEN, kind="ARRAY")
    if kind.is_type("map", "variant", "object"):
        return replace(OPEN, kind=kind.this.value)
    return Columns(kind=kind.this.value)


Sources = dict[str, Columns]


@dataclass(frozen=True, slots=True)
class _Scope:
    """The names that are visible in one SELECT."""

    sources: Sources
    aliases: frozenset[str]

    @property
    def is_open(self) -> bool:
        return any(source.is_open for source in self.sources.values())


class _Query:
    """The resolver of one statement: it visits SELECTs from the innermost FROM outward."""

    def __init__(self, tables: Mapping[str, Columns]) -> None:
        self.inputs = tuple(tables)
        self.findings: list[Finding] = []

    def columns(self, query: exp.Expr, tables: Sources, outer: tuple[_Scope, ...]) -> Columns:
        """The output columns of a query. `tables`: those that it may name in FROM."""
        tables = self._with(query, tables, outer)
        if isinstance(query, exp.Subquery):
            return self.columns(query.this, tables, outer)
        if isinstance(query, exp.SetOperation):
            left = self.columns(query.left, tables, outer)
            self.columns(query.right, tables, outer)
            return OPEN if query.args.get("by_name") else left
        if isinstance(query, exp.Select):
            return self._select(query, tables, outer)
        return OPEN

    def _with(self, query: exp.Expr, tables: Sources, outer: tuple[_Scope, ...]) -> Sources:
        clause = query.args.get("with_")
        if clause is None:
            return tables
        tables = dict(tables)
        for each in clause.expressions:
            made = OPEN if clause.args.get("recursive") else self.columns(each.this, tables, outer)
            tables[each.alias.lower()] = _renamed(made, each.args.get("alias"))
        return tables

    def _select(self, select: exp.Select, tables: Sources, outer: tuple[_Scope, ...]) -> Columns:
        sources: Sources = {}
        clause = select.args.get("from_")
        joins = select.args.get("joins") or []
        for each in ([clause.this] if clause else []) + [join.this for join in joins]:
            name = each.alias_or_name.lower() or f"#{len(sources)}"
            sources[name] = self._source(each, tables, outer)
        for _ in select.args.get("laterals") or []:
            sources[f"#{len(sources)}"] = OPEN
        sources.update(_windows(select))
        aliases = frozenset(
            each.alias.lower() for each in select.expressions if isinstance(each, exp.Alias)
        )
        scope = _Scope(sources, aliases)
        scopes = (scope, *outer)
        for word, part in select.args.items():
            if word in ("with_", "from_", "hint"):
                continue
            for each in part if isinstance(part, list) else [part]:
                if isinstance(each, exp.Join):
                    self._judge_all(each.args.get("on"), tables, scopes)
                elif isinstance(each, exp.Expr):
                    self._judge_all(each, tables, scopes)
        return self._made(select, scope)

    def _source(self, source: exp.Expr, tables: Sources, outer: tuple[_Scope, ...]) -> Columns:
        alias = source.args.get("alias")
        if source.args.get("joins") or source.args.get("laterals") or source.args.get("pivots"):
            return OPEN
        if isinstance(source, exp.Subquery):
            return _renamed(self.columns(source, tables, outer), alias)
        is_name = isinstance(source, exp.Table) and isinstance(source.this, exp.Identifier)
        if not is_name or source.args.get("db"):
            return OPEN
        found = tables.get(source.name.lower())
        if found is None:
            hint = nearest(source.name, self.inputs)
            there = ", ".join(f"`{name}`" for name in self.inputs)
            hint = hint or f"; there {'is' if len(self.inputs) == 1 else 'are'} {there or 'none'}"
            self._note(source.this, f"no table `{source.name}`{hint}")
            return OPEN
        return _renamed(found, alias)

    def _judge_all(
        self, node: exp.Expr | None, tables: Sources, scopes: tuple[_Scope, ...]
    ) -> None:
        """Check every column below a node; a nested query is checked first, in its own scope."""
        if node is None:
            return
        if isinstance(node, (exp.Select, exp.SetOperation)):
            self.columns(node, tables, scopes)
            return
        if isinstance(node, exp.Column):
            self._judge(node, scopes)
            return
        if isinstance(node, (exp.Lateral, exp.DataType)):
            return
        for below in node.iter_expressions():
            self._judge_all(below, tables, scopes)

    def _judge(self, column: exp.Column, scopes: tuple[_Scope, ...]) -> None:
        parts = [each for each in column.parts if not isinstance(each, exp.Star)]
        if not parts:
            return
        kind, wrong = _resolved([part.name for part in parts], scopes)
        if wrong is not None:
            self._note(parts[wrong.part], wrong.message)
        elif isinstance(column.this, exp.Star) and kind is not None and kind.is_scalar:
            name = parts[-1].name
            self._note(parts[-1], f"`{name}` has no fields, so no `{name}.*`")

    def _made(self, select: exp.Select, scope: _Scope) -> Columns:
        made: list[tuple[str, Columns | None]] = []
        is_open = False
        for each in select.expressions:
            columns = _projected(each, scope)
            is_open |= columns is None
            made.extend(columns or ())
        names = [name for name, _ in made]
        twice = tuple(dict.fromkeys(name for name in names if names.count(name) > 1))
        return Columns(dict(made), is_open, twice)

    def _note(self, at: exp.Expr, message: str) -> None:
        start = at.meta.get("start")
        self.findings.append(Finding(int(start) if start is not None else 0, message))


@dataclass(frozen=True, slots=True)
class _Wrong:
    part: int
    message: str


def _resolved(parts: list[str], scopes: tuple[_Scope, ...]) -> tuple[Columns | None, _Wrong | None]:
    """The type of `a.b.c` (None: not known), or its problem."""
    lower = [part.lower() for part in parts]
    if len(parts) == 1 and lower[0] in _WITHOUT_PARENTHESES:
        return None, None
    for scope in scopes:
        source = scope.sources.get(lower[0])
        if source is not None and len(parts) > 1 and (source.is_open or lower[1] in source.names):
            return _inside(source, parts, 1)
        for each in scope.sources.values():
            if lower[0] in each.names:
                return _inside(each, parts, 0)
        if scope.is_open or lower[0] in scope.aliases:
            return None, None
    inner = scopes[0].sources
    if lower[0] in inner:
        if len(parts) == 1:
            return None, None
        return None, _no(1, f"`{parts[0]}` has no column", parts[1], inner[lower[0]])
    every: dict[str, Columns | None] = {}
    for each in inner.values():
        every.update(each.names)
    return None, _no(0, "no column", parts[0], Columns(every))


def _inside(columns: Columns, parts: list[str], at: int) -> tuple[Columns | None, _Wrong | None]:
    """Follow fields from `parts[at]`, a column of `columns`."""
    kind: Columns | None = columns
    for index in range(at, len(parts)):
        if kind is None:
            return None, None
        name = parts[index].lower()
        if name not in kind.names:
            if kind.is_open:
                return None, None
            above = parts[index - 1]
            if not kind.names:
                return None, _Wrong(index, f"`{above}` has no fields, so no `{parts[index]}`")
            return None, _no(index, f"`{above}` has no field", parts[index], kind)
        kind = kind.names[name]
    return kind, None


def _no(part: int, what: str, name: str, columns: Columns) -> _Wrong:
    known = list(columns.names)
    listed = ", ".join(f"`{each}`" for each in known[:_TOLD_MAX])
    listed += f" and {len(known) - _TOLD_MAX} more" if len(known) > _TOLD_MAX else ""
    hint = nearest(name.lower(), known) or (f"; there is {listed}" if listed else "")
    return _Wrong(part, f"{what} `{name}`{hint}")


def _windows(select: exp.Select) -> Sources:
    """The column of a time window in GROUP BY."""
    group = select.args.get("group")
    called = (each.name.lower() for each in (group.find_all(exp.Anonymous) if group else ()))
    named = {_WINDOWS[name] for name in called if name in _WINDOWS}
    fields = Columns({"start": SCALAR, "end": SCALAR})
    return {f"#{name}": Columns({name: fields}) for name in sorted(named)}


def _projected(node: exp.Expr, scope: _Scope) -> list[tuple[str, Columns | None]] | None:
    """The columns of one expression of a SELECT list; None if they are not known."""
    if isinstance(node, exp.Star):
        return None if scope.is_open else list(_starred(node, scope.sources.values()))
    if isinstance(node, exp.Column) and isinstance(node.this, exp.Star):
        parts = [part.name for part in node.parts[:-1]]
        source = scope.sources.get(parts[0].lower()) if len(parts) == 1 else None
        if source is None:
            source, _ = _resolved(parts, (scope,))
        known = source is not None and not source.is_open
        return list(_starred(node.this, [source])) if source is not None and known else None
    if isinstance(node, exp.Alias):
        return [(node.alias.lower(), _type(node.this, scope))]
    if isinstance(node, exp.Aliases):
        return [(each.name.lower(), None) for each in node.expressions]
    if isinstance(node, exp.Column):
        return [(node.name.lower(), _type(node, scope))]
    if isinstance(node, exp.Dot):
        return [(node.name.lower(), None)]
    return None


def _starred(star: exp.Star, sources: Iterable[Columns]) -> Iterator[tuple[str, Columns | None]]:
    dropped = {each.name.lower() for each in star.args.get("except_") or []}
    for source in sources:
        for name, kind in source.names.items():
            if name not in dropped:
                yield name, kind


def _type(node: exp.Expr, scope: _Scope) -> Columns | None:
    if isinstance(node, exp.Column) and not isinstance(node.this, exp.Star):
        return _resolved([part.name for part in node.parts], (scope,))[0]
    if isinstance(node, exp.Paren):
        return _type(node.this, scope)
    if isinstance(node, exp.Coalesce):
        kinds = [_type(each, scope) for each in (node.this, *node.expressions)]
        return next((kind for kind in kinds if kind is not None and kind.origin), None)
    if isinstance(node, exp.Cast):
        return _fields(node.to)
    if isinstance(node, (exp.Boolean, exp.Predicate)):
        return Columns(kind="BOOLEAN")
    return None


def _renamed(columns: Columns, alias: exp.Expr | None) -> Columns:
    """`AS t(a, b)`: the columns with their new names."""
    names = [each.name.lower() for each in alias.args.get("columns") or []] if alias else []
    if not names:
        return columns
    if columns.is_open or columns.twice or len(names) != len(columns.names):
        return OPEN
    return Columns(dict(zip(names, columns.names.values(), strict=True)))
