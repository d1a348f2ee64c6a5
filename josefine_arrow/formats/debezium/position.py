"""Position of a change in its database's log, as one text that sorts as the log does.

`source` of an envelope has the position in fields of its connector: numbers in numbers, numbers in
texts (Oracle's SCN), numbers at the end of a text (MySQL's binary log) and hexadecimal texts (SQL
Server's LSN). As texts they do not sort as the numbers do: 1000000 comes before 999999. A position
is all its fields padded to a fixed width, so that comparing texts compares the numbers.

Why a text: MERGE, windows and `order_by` compare it without a rule of their own, each sink and
topic stores it, and a table's file statistics cover it. A struct of numbers would have other fields
for each connector and no statistics; DECIMAL(38) is too narrow for SQL Server's two LSN of ten
bytes.

Changes of one row are in the order of their positions for these reasons. PostgreSQL, MySQL and
MariaDB: a row's lock is held until the commit, so the log has the next change of the row after it.
Oracle: the connector sends transactions by commit SCN; a snapshot has its SCN and no commit SCN,
and contains exactly the transactions with at most this commit SCN, so the snapshot's own SCN
takes its place. SQL Server: the same by commit LSN; a snapshot has no change LSN and sorts before
the changes of that commit. MongoDB: the second and the ordinal of the oplog's timestamp. Two
changes with equal positions (copies, two changes of one transaction) are ordered by the offset.

The table is evaluated as columns of Spark in `pipelines/formats`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

POSITION = "position"
"""The column that this adds to the envelope's."""
SEPARATOR = "."
_END = r"(?![\s\S])"
"""The end of the text for Python and Java alike; `$` lets a line break follow."""
_LSN = "[0-9a-fA-F]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One number of a position: the first of `fields` that is there.

    `pattern`: the whole text, its first group the number without leading zeros, or a text of fixed
    width. `default`: the number if no field is there; None: then there is no position.
    """

    fields: tuple[str, ...]
    pattern: str
    width: int
    expected: str
    default: str | None = None


def _number(*fields: str, width: int = 20, default: str | None = None) -> Part:
    """An unsigned number; 20 digits are enough for 64 bits."""
    pattern = f"^0*([0-9]{{1,{width}}}){_END}"
    return Part(fields=fields, pattern=pattern, width=width, expected="a number", default=default)


def _lsn(field: str, default: str | None = None) -> Part:
    return Part(
        fields=(field,),
        pattern=f"^({_LSN}{{8}}:{_LSN}{{8}}:{_LSN}{{4}}){_END}",
        width=22,
        expected="an LSN such as 00000027:00000758:0003",
        default=default,
    )


_BINARY_LOG = (
    Part(
        fields=("file",),
        pattern=rf"^[\s\S]*[.]0*([0-9]{{1,10}}){_END}",
        width=10,
        expected="a binary log's name such as mysql-bin.000123",
    ),
    _number("pos"),
    _number("row", width=10, default="0"),
)

CONNECTORS: Mapping[str, tuple[Part, ...]] = {
    "postgresql": (_number("lsn"),),
    "mysql": _BINARY_LOG,
    "mariadb": _BINARY_LOG,
    "oracle": (_number("commit_scn", "scn"), _number("scn")),
    "sqlserver": (
        _lsn("commit_lsn"),
        _lsn("change_lsn", default="00000000:00000000:0000"),
        _number("event_serial_no", width=10, default="0"),
    ),
    "mongodb": (_number("ts_ms"), _number("ord", width=10)),
}
"""`source.connector` → the numbers of a position, the most significant one first."""

ABSENT = ("", "null")
"""Texts that some connectors write for no value, in lower case."""
NO_POSITION = "no position: "
"""Prefix of each reason."""
NO_CONNECTOR = f"{NO_POSITION}`source.connector` is missing"


def unknown_connector(name: str) -> str:
    """The reason for a connector that is not in the table."""
    return f"{NO_POSITION}unknown connector `{name}`; known: {', '.join(CONNECTORS)}"


def missing(part: Part) -> str:
    """The reason for an envelope without any field of a part."""
    return f"{NO_POSITION}`source.{part.fields[-1]}` is missing"


def malformed(part: Part) -> tuple[str, str]:
    """The reason for a field that is no such number, before and after the found text."""
    named = " or ".join(f"`source.{name}`" for name in part.fields)
    return f"{NO_POSITION}{named} is `", f"`: expected {part.expected}"
