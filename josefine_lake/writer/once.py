"""One pass over table topics: each table up to the end that its topic has now, then the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from deltalake.exceptions import DeltaError

from josefine_broker.client.io_blocking import BlockingClient
from josefine_lake.config.table_topic import TableTopic
from josefine_lake.writer.table_writer import TableWriter
from josefine_lake.writer.topic_reader import OutOfRangeError
from josefine_lake.writer.verdicts import StoppedTable
from josefine_lake.writer.worlds import committer, world_of
from pipelines.exactly_once.offset_chain import Verdict
from pipelines.storage.location import StorageError

FAILURES = (DeltaError, OSError, OutOfRangeError, StorageError)
"""Of a table, its store, schema file or registry; another run may continue after them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """The result of one table. `stopped`: why it is not written further; empty if it is."""

    table: TableTopic
    rows: int
    stopped: str = ""
    verdict: Verdict | None = None


def run_once(
    client: BlockingClient,
    tables: Mapping[str, TableTopic],
    env: Mapping[str, str],
    stopping: Callable[[], bool],
    *,
    trust: bool,
    renames: Mapping[str, str],
) -> Iterator[Done]:
    """Yield each table's result. Raises KafkaError and CorruptData: what is wrong with a table, its
    schema file or its registry is the matter of that table alone."""
    for table in tables.values():
        rows, stop, verdict = 0, "", None
        try:
            writer = TableWriter(table, world_of(table, client, env, committer(client)))
            writer.run(stopping, once=True, trust=trust, renames=renames)
            rows = writer.rows
        except StoppedTable as error:
            stop, verdict = str(error), error.stopped.verdict
        except FAILURES as error:
            stop = failure(table, error)
        yield Done(table=table, rows=rows, stopped=stop, verdict=verdict)
        if stopping():
            return


def failure(table: TableTopic, error: Exception) -> str:
    """One sentence: delta-rs adds the places in its own code, a line each."""
    first = str(error).partition("\n")[0].strip() or type(error).__name__
    return f"table of topic `{table.topic}` ({table.location}): {first}"
