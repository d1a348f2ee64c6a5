"""The file that `josefine pipeline init --topic` writes: the schema is of the newest records.

Apart from the command, because other verbs load no client of the brokers.
"""

from __future__ import annotations

from collections.abc import Iterator

from josefine_broker.base.errors import ErrorCode
from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.fetch import Positions
from josefine_broker.client.io_blocking import EARLIEST, LATEST, BlockingClient
from josefine_broker.client.operations import partition_error
from josefine_cli.base.errors import UserError
from josefine_cli.base.output import connect, note
from josefine_cli.kafka.consume_records import named_when_damaged, records_of
from josefine_cli.kafka.names import partition_count
from pipelines.base.plurals import counted
from pipelines.config.inferred_schema import columns_of, pipeline_text

RECORDS_MAX = 1_000
"""Records that the schema is of, about the same number from each partition."""
FETCH_BYTES_MAX = 4 * 1024 * 1024


def text_of(topic: str, bootstrap: str) -> tuple[str, str]:
    """(the file that reads the topic, what its schema is of). Raises UserError."""
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
