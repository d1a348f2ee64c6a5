"""The statistics of a Parquet file in Delta's form, from the file's footer.

Readers skip files by them: the number of rows, the nulls of the first columns, and their bounds.

Rules: a file has the bounds of every column whose type has any, or of none. delta-rs takes a bound
that is missing for null, and a filter on its column then finds no row of the file. A column of
nulls alone needs no bounds. A footer is silent about NaN, and about long texts: see `Unseen`.
Files that are made here have no bounds of floating-point columns in their footers: Arrow and DuckDB
take those of a row group with NaN for true, and `value != 1.5` loses the NaN next to a 1.5.
(Delta's PROTOCOL.md: per-file statistics.)
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import Any, NamedTuple

TEXT_MAX = 32
"""Characters of a text's bound; Delta for Spark cuts there, too."""
INDEXED_COLUMNS = 32
"""Columns with statistics, as Delta's own default."""
FOOTER_TEXT_BYTES_MAX = 4_096
"""Arrow and parquet-mr leave the bounds of a row group out of the footer if one is longer."""
_LAST = "\U0010ffff"
"""The character that no other one comes after."""
_EPOCH_ORDINAL = date(1970, 1, 1).toordinal()
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROS = {"s": 1_000_000, "ms": 1_000, "us": 1}
Path = tuple[str, ...]
Bounds = tuple[Any, Any]


class Leaf(NamedTuple):
    """A column without parts. `at`: its place in the file; None: a list or map, or of a type
    without bounds."""

    path: Path
    at: int | None
    kind: Any


class Counted(NamedTuple):
    """A floating-point column of one row group, as a footer's statistics would be."""

    num_values: int
    null_count: int
    min: float | None
    max: float | None

    @property
    def has_null_count(self) -> bool:
        return True

    @property
    def has_min_max(self) -> bool:
        return self.min is not None


class Unseen:
    """What a footer lacks about the rows. Mutable; `add` gets the rows of each row group."""

    def __init__(self, schema: Any, columns_max: int = INDEXED_COLUMNS) -> None:
        """`schema`: Arrow's, of the file."""
        import pyarrow as pa

        leaves = _indexed(schema, columns_max)
        self._floats = [each.path for each in leaves if pa.types.is_floating(each.kind)]
        self._texts = [each.path for each in leaves if _is_text(each.kind)]
        self.unordered: set[Path] = set()
        """Columns with NaN, which is the largest value for some readers and no value for others, or
        with texts that are not UTF-8, as Spark's may be."""
        self.floats: dict[Path, list[Counted]] = {path: [] for path in self._floats}
        """Floating-point columns, of each row group."""
        self.texts: dict[Path, Bounds] = {}
        """The bounds over all row groups with texts that are too long for the footer."""

    def add(self, rows: Any) -> None:
        """Look at the rows of one row group, an Arrow table or record batch."""
        import pyarrow as pa
        import pyarrow.compute as pc

        for path in self._floats:
            values = _values(rows, path)
            if path not in self.unordered and pc.any(pc.is_nan(values)).as_py():
                self.unordered.add(path)
            nulls, found = values.null_count, pc.min_max(values).as_py()
            self.floats[path].append(
                Counted(len(values) - nulls, nulls, found["min"], found["max"])
            )
        for path in self._texts:
            values = _values(rows, path)
            longest = pc.max(pc.binary_length(values)).as_py()
            if longest is not None and longest > FOOTER_TEXT_BYTES_MAX:
                try:
                    # One character more than the bound has, so that a cut is seen.
                    found = pc.min_max(pc.utf8_slice_codeunits(values, 0, TEXT_MAX + 1)).as_py()
                except (pa.ArrowInvalid, UnicodeDecodeError):
                    self.unordered.add(path)
                    continue
                known = self.texts.get(path, (found["min"], found["max"]))
                self.texts[path] = min(known[0], found["min"]), max(known[1], found["max"])


def unseen_in(path: Any, footer: Any, columns_max: int) -> Unseen:
    """What the footer of an existing file lacks; only such columns are read."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = footer.schema.to_arrow_schema()
    found = Unseen(schema, columns_max)
    leaves = _indexed(schema, columns_max)
    doubtful = [
        each
        for each in leaves
        if pa.types.is_floating(each.kind)
        or (_is_text(each.kind) and _lacks_bounds(_known(footer, each.at)))
    ]
    if doubtful:
        names = [each.path[0] for each in doubtful]
        found._floats = [each.path for each in doubtful if not _is_text(each.kind)]
        found._texts = [each.path for each in doubtful if _is_text(each.kind)]
        with pq.ParquetFile(path) as file:
            for at in range(file.num_row_groups):
                found.add(file.read_row_group(at, columns=[*dict.fromkeys(names)]))
    return found


def statistics(footer: Any, columns_max: int, unseen: Unseen) -> str:
    """JSON. `footer`: pyarrow's metadata of a file; `columns_max`: the number of columns that have
    statistics, the first ones; -1: all."""
    low: dict[str, Any] = {}
    top: dict[str, Any] = {}
    nulls: dict[str, Any] = {}
    is_certain = True
    for leaf in _indexed(footer.schema.to_arrow_schema(), columns_max):
        known = _known(footer, leaf.at)
        if leaf.path in unseen.floats and any(each is None for each in known):
            known = list[Any](unseen.floats[leaf.path])
        if not known or any(each is None or not each.has_null_count for each in known):
            is_certain = is_certain and _form_of(leaf.kind) is None
            continue
        _put(nulls, leaf.path, sum(each.null_count for each in known))
        form = _form_of(leaf.kind)
        if form is None:
            continue
        has_values = any(each.num_values for each in known)
        bounds = _bounds(known, leaf, form, unseen) if has_values else None
        # delta-rs takes a struct without an entry for null, too.
        for entries, bound in zip((low, top), bounds or (None, None), strict=True):
            _put(entries, leaf.path, bound)
        if has_values and bounds is None and len(leaf.path) == 1:
            is_certain = False
    parts = {"minValues": _plain(low), "maxValues": _plain(top)} if is_certain else {}
    parts["nullCount"] = nulls
    found = {name: part for name, part in parts.items() if part}
    return _json({"numRecords": footer.num_rows, **found})


def with_footer_bounds(schema: Any) -> list[str]:
    """The columns of a new file whose bounds its footer may have, by Arrow's names for them."""
    import pyarrow as pa

    return [
        ".".join(leaf.path)
        for leaf in _leaves(schema)
        if leaf.at is not None and not pa.types.is_floating(leaf.kind)
    ]


@lru_cache(maxsize=128)
def _indexed(schema: Any, columns_max: int) -> tuple[Leaf, ...]:
    # The files of a table have the same columns, batch after batch.
    leaves = tuple(_leaves(schema))
    return leaves if columns_max < 0 else leaves[:columns_max]


def _leaves(schema: Any) -> Iterator[Leaf]:
    """The columns in order. A list or map counts as one."""
    import pyarrow as pa

    at = 0

    def below(path: Path, kind: Any) -> Iterator[Leaf]:
        nonlocal at
        if pa.types.is_struct(kind):
            for inner in kind:
                yield from below((*path, inner.name), inner.type)
        elif pa.types.is_nested(kind):
            at += _width(kind)
            yield Leaf(path, None, kind)
        else:
            at += 1
            yield Leaf(path, at - 1, kind)

    for each in schema:
        yield from below((each.name,), each.type)


def _width(kind: Any) -> int:
    inside = [kind.field(at).type for at in range(kind.num_fields)]
    return sum(map(_width, inside)) if inside else 1


def _values(rows: Any, path: Path) -> Any:
    import pyarrow.compute as pc

    column = rows.column(path[0])
    return pc.struct_field(column, list(path[1:])) if len(path) > 1 else column


def _known(footer: Any, at: int | None) -> list[Any]:
    """A column's statistics of each row group."""
    if at is None:
        return []
    return [footer.row_group(group).column(at).statistics for group in range(footer.num_row_groups)]


def _lacks_bounds(known: list[Any]) -> bool:
    return any(each is None or (each.num_values and not each.has_min_max) for each in known)


def _put(into: dict[str, Any], path: Path, value: Any) -> None:
    for name in path[:-1]:
        into = into.setdefault(name, {})
    into[path[-1]] = value


def _plain(found: dict[str, Any]) -> dict[str, Any]:
    """Without null."""
    return {
        name: _plain(each) if isinstance(each, dict) else each
        for name, each in found.items()
        if each is not None
    }


def _bounds(known: list[Any], leaf: Leaf, form: Form, unseen: Unseen) -> Bounds | None:
    """The bounds of one column over all row groups; None if they are not certain."""
    if leaf.path in unseen.unordered:
        return None
    try:
        # A group of nulls alone has no bounds, and needs none.
        values = [form.read(each) for each in known if each.num_values and each.has_min_max]
    except UnicodeDecodeError:
        return None
    if _lacks_bounds(known):
        if leaf.path not in unseen.texts:
            return None
        values.append(unseen.texts[leaf.path])
    least, most = min(low for low, _ in values), max(top for _, top in values)
    found = form.write(least, most)
    return None if found[0] is None or found[1] is None else found


class Form(NamedTuple):
    """The bounds of one type: `read` from a footer's statistics, `write` to the log; None: a bound
    that the log cannot have."""

    read: Callable[[Any], Bounds]
    write: Callable[[Any, Any], Bounds]


def _form_of(kind: Any) -> Form | None:
    """None: a type without bounds, such as binary."""
    import pyarrow as pa

    types = pa.types
    if types.is_boolean(kind) or types.is_integer(kind):
        return Form(_typed, _as_is)
    if types.is_floating(kind):
        return Form(_typed, _float)
    if types.is_decimal(kind):
        return Form(_typed, _as_is)
    if _is_text(kind):
        return Form(_typed, _text)
    if types.is_date32(kind):
        return Form(_raw, _days)
    if types.is_timestamp(kind):
        zone = "" if kind.tz is None else "Z"
        return Form(_raw, lambda low, top: _times(low, top, kind.unit, zone))
    return None


def _is_text(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _typed(known: Any) -> Bounds:
    return known.min, known.max


def _raw(known: Any) -> Bounds:
    # Numbers: Python has no dates and times after the year 9999.
    return known.min_raw, known.max_raw


def _as_is(least: Any, most: Any) -> Bounds:
    return least, most


def _float(least: float, most: float) -> Bounds:
    if not (abs(least) < float("inf") and abs(most) < float("inf")):
        return None, None
    # Both zeros are equal, and writers differ in which of them a bound is.
    return least or -0.0, most or 0.0


def _text(least: str, most: str) -> Bounds:
    if len(most) > TEXT_MAX:
        # A cut bound would be below the value, so it gets the last of all characters.
        most = "" if most[TEXT_MAX] == _LAST else most[:TEXT_MAX] + _LAST
    return least[:TEXT_MAX], most or None


def _days(least: int, most: int) -> Bounds:
    try:
        low, top = (date.fromordinal(_EPOCH_ORDINAL + each) for each in (least, most))
    except (ValueError, OverflowError):
        return None, None
    return low.isoformat(), top.isoformat()


def _times(least: int, most: int, unit: str, zone: str) -> Bounds:
    if unit == "ns":
        least, most = least // 1_000, -(-most // 1_000)
    factor = _MICROS.get(unit, 1)
    try:
        # Delta has milliseconds there, so the upper bound is rounded up.
        low = _EPOCH + timedelta(milliseconds=least * factor // 1_000)
        top = _EPOCH + timedelta(milliseconds=-(-most * factor // 1_000))
    except OverflowError:
        return None, None
    return _millis(low) + zone, _millis(top) + zone


def _millis(at: datetime) -> str:
    return at.replace(tzinfo=None).isoformat(timespec="milliseconds")


def _json(value: Any) -> str:
    """JSON with decimals as numbers, with all their digits, and with characters as they are: Arrow,
    by which delta-rs reads the log, decodes the escapes of many characters after U+FFFF wrongly."""
    with suppress(TypeError):  # decimals
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, Mapping):
        parts = ", ".join(f"{_json(name)}: {_json(each)}" for name, each in value.items())
        return f"{{{parts}}}"
    return format(value, "f")
