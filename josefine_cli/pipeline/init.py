"""The command `josefine pipeline init FILE`: a pipeline's file to begin with.

Without --topic it is the commented example. With it the schema is that of the topic's newest
records, which are read and stay as they are. Exit codes: 0 success, 1 failure, 2 usage.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import typer

from josefine_broker.base.errors import ErrorCode
from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.fetch import Positions
from josefine_broker.client.io_blocking import EARLIEST, LATEST, BlockingClient
from josefine_broker.client.operations import partition_error
from josefine_cli.base.errors import UsageError, UserError
from josefine_cli.base.output import connect, note
from josefine_cli.cluster.target import Bootstrap, bootstrap_of
from josefine_cli.kafka.consume_records import named_when_damaged, records_of
from josefine_cli.kafka.names import partition_count

RECORDS_MAX = 1_000
"""Records that the schema is of, about the same number from each partition."""
FETCH_BYTES_MAX = 4 * 1024 * 1024


def add_to(app: typer.Typer) -> None:
    """Register the verb before the existing ones."""
    app.command()(init)


def init(
    file: Path = typer.Argument(help="The file to write.", show_default=False),
    force: bool = typer.Option(False, "--force", help="Write over a file that is there."),
    topic: str | None = typer.Option(
        None, "--topic", help="Read this topic: its schema is inferred from records in JSON."
    ),
    bootstrap: Bootstrap = None,
) -> None:
    """Write a file to begin with: a commented example, or one that reads a topic.

    \b
    josefine pipeline init example.yaml
    josefine pipeline init orders.yaml --topic orders
    """
    if file.exists() and not force:
        raise UsageError(f"{file} is there already: --force writes over it")
    if topic is None:
        from pipelines.config.example import EXAMPLE

        text, found = EXAMPLE.read_text(encoding="utf-8"), ""
    else:
        text, found = _text_of(topic, bootstrap_of(bootstrap))
    file.write_text(text, encoding="utf-8")
    print(f"{file}: written{found}; next: josefine pipeline lint {file}")


def _text_of(topic: str, bootstrap: str) -> tuple[str, str]:
    """(the file that reads the topic, what its schema is of)."""
    from pipelines.base.plurals import counted
    from pipelines.config.inferred_schema import columns_of, pipeline_text

    with connect(bootstrap) as client:
        values = list(_newest_values(client, topic))
    columns, others = columns_of(values)
    if not values:
        raise UserError(
            f"topic '{topic}' has no records to infer a schema from: produce some, "
            "or write the commented example by leaving --topic out"
        )
    if not columns:
        raise UserError(
            f"topic '{topic}': none of {counted(len(values), 'record')} is a JSON object with "
            "fields: leave --topic out, and choose the format of the values under `decode`"
        )
    if others:
        note(f"{counted(others, 'record')} of {len(values)} not in JSON: dead letters of a run")
    seen = f"the newest {counted(len(values), 'record')}"
    return pipeline_text(topic, bootstrap, columns, seen), f", its schema from {seen}"


def _newest_values(client: BlockingClient, topic: str) -> Iterator[bytes | None]:
    """Values of the newest records of each partition, RECORDS_MAX in all at most."""
    tps = [TopicPartition(topic, n) for n in range(partition_count(client, topic))]
    first = client.list_offsets(dict.fromkeys(tps, EARLIEST))
    last = client.list_offsets(dict.fromkeys(tps, LATEST))
    share = max(1, RECORDS_MAX // len(tps))
    positions = Positions()
    for tp in tps:
        start = max(first[tp].offset, last[tp].offset - share)
        positions.assign(tp, start, last[tp].offset)
    while not positions.finished:
        for tp, part in client.fetch(positions.wanted(), bytes_max=FETCH_BYTES_MAX).items():
            if part.error_code is not ErrorCode.none:
                raise partition_error(tp, part.error_code, None)
            with named_when_damaged(tp):
                for record in records_of(tp, part, positions):
                    yield record.value
                # By batches: a transaction's marker is a position without a record.
                positions.advance(tp, part.records)
