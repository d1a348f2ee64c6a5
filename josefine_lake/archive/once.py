"""One pass over archives: each up to the end that its topic has now."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from josefine_broker.client.io_blocking import BlockingClient
from josefine_lake.archive.writer import archive_writer
from josefine_lake.config.table_topic import TableTopic
from josefine_lake.writer.once import FAILURES, Done, failure
from josefine_lake.writer.verdicts import StoppedTable


def run_once(
    client: BlockingClient,
    archives: Mapping[str, TableTopic],
    env: Mapping[str, str],
    stopping: Callable[[], bool],
    *,
    trust: bool,
) -> Iterator[Done]:
    """Yield each archive's result. Raises KafkaError and CorruptData."""
    for archive in archives.values():
        rows = 0
        try:
            writer = archive_writer(archive, client, env)
            writer.run(stopping, once=True, trust=trust)
            rows = writer.rows
        except StoppedTable as error:
            yield Done(table=archive, rows=rows, stopped=str(error))
        except FAILURES as error:
            yield Done(table=archive, rows=rows, stopped=failure(archive, error))
        else:
            yield Done(table=archive, rows=rows)
        if stopping():
            return
