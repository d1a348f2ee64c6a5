"""`josefine sql`: one statement over topics, answered from their tables and their logs."""

from __future__ import annotations

import os
import re
import sys
from enum import StrEnum
from typing import Annotated

import typer

from josefine_cli.base.errors import UsageError
from josefine_cli.base.extras import need
from josefine_cli.base.output import connect, note, plural, print_table
from josefine_cli.cluster.target import Bootstrap, bootstrap_of
from josefine_cli.sql.rows import Result, csv_lines, shown

app = typer.Typer(add_completion=False, rich_markup_mode=None)
PACKAGES = ("josefine_lake", "duckdb", "deltalake", "pyarrow", "numpy")
LIMIT = 1_000
_SIZE = re.compile(r"(\d+) ?([kmgt]?)b?", re.IGNORECASE)
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}


class Format(StrEnum):
    """The values of --format."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"


@app.command()
def sql(
    statement: Annotated[
        str, typer.Argument(help="One statement; `-`: read it from stdin.", metavar="STATEMENT")
    ],
    format_: Annotated[
        Format, typer.Option("--format", help="Of the rows; json: one object a line.")
    ] = Format.TABLE,
    limit: Annotated[
        int, typer.Option(min=0, help="Rows at most, with a note if there are more; 0: all.")
    ] = LIMIT,
    tail: Annotated[
        bool, typer.Option("--tail/--no-tail", help="Read what the tables have not, too.")
    ] = True,
    at: Annotated[
        list[str] | None,
        typer.Option(
            "--at",
            metavar="[TOPIC=]VERSION",
            help="Read a topic's table alone, at this version; repeatable.",
        ),
    ] = None,
    max_tail_bytes: Annotated[
        str, typer.Option("--max-tail-bytes", help="Of all logs together, before it stops.")
    ] = "256MB",
    memory: Annotated[
        str, typer.Option(help="Of the query engine; larger work goes to a temporary folder.")
    ] = "1GB",
    temporary: Annotated[
        str, typer.Option("--max-temporary-bytes", help="Of that folder.")
    ] = "10GB",
    bootstrap: Bootstrap = None,
) -> None:
    """Query topics with SQL: the rows of their tables, and the records the tables have not yet.

    Each committed record counts once. Below the rows, on stderr, is a line for each topic with
    the offsets up to which the answer holds. A statement can only read, and only topics.

    \b
    josefine sql "select * from orders where customer = 'ada'"
    josefine sql 'select * from "web.clicks-v2"' --format json
    """
    # Before the imports below: a bare installation has none of these packages.
    need("josefine sql", *PACKAGES)
    from josefine_lake.query.answer import answering
    from josefine_lake.query.brokers import Cluster
    from josefine_lake.query.plan import Options
    from josefine_lake.writer.little_memory import use_system_pool

    use_system_pool(os.environ)
    options = Options(
        tail=tail,
        versions=dict(map(_version, at or [])),
        tail_bytes_max=_bytes(max_tail_bytes),
        memory=memory,
        temporary=temporary,
    )
    text = sys.stdin.read() if statement == "-" else statement
    with (
        connect(bootstrap_of(bootstrap)) as client,
        answering(Cluster(client), text, options, os.environ) as answer,
    ):
        result = Result(answer.relation, limit)
        _print(result, format_)
        if result.is_cut:
            note(f"cut after {plural(limit, 'row')}: --limit 0 prints all")
        for each in answer.holds:
            note(str(each))


def _print(result: Result, format_: Format) -> None:
    if format_ is Format.JSON:
        for line in result.objects():
            print(line)
    elif format_ is Format.CSV:
        for line in csv_lines(result.columns, result.texts()):
            print(line)
    elif result.is_plan:
        print("\n".join(row[-1] or "" for row in result.texts()))
    else:
        print_table(
            [each.name for each in result.columns],
            ([shown(text) for text in row] for row in result.texts()),
        )


def _version(text: str) -> tuple[str, int]:
    """(topic, or empty for the only one, version). Raises UsageError."""
    topic, _, number = text.rpartition("=")
    if not number.isdecimal():
        raise UsageError(f"--at {text}: expected VERSION or TOPIC=VERSION")
    return topic, int(number)


def _bytes(text: str) -> int:
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise UsageError(f"--max-tail-bytes {text}: expected a size such as 256MB")
    return int(found[1]) * _UNITS[found[2].lower()]
