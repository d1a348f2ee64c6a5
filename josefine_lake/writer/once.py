"""One pass over table topics: each table up to the end that its topic has now, then the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from josefine_broker.client.io_blocking import BlockingClient
from josefine_lake.config.table_topic import TableTopic
from josefine_lake.formats.registry import RegistryUnavailableError
from josefine_lake.writer.table_writer import TableWriter
from josefine_lake.writer.verdicts import StoppedTable
from josefine_lake.writer.worlds import committer, world_of
from pipelines.exactly_once.offset_chain import Verdict


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
    """Yield each table's result. Raises KafkaError, CorruptData, DeltaError and OSError. A schema
    file or registry that does not answer is the matter of its table alone."""
    for table in tables.values():
        rows, stop, verdict = 0, "", None
        try:
            writer = TableWriter(table, world_of(table, client, env, committer(client)))
            writer.run(stopping, once=True, trust=trust, renames=renames)
            rows = writer.rows
        except StoppedTable as error:
            stop, verdict = str(error), error.stopped.verdict
        except (RegistryUnavailableError, FileNotFoundError, PermissionError) as error:
            stop = f"table of topic `{table.topic}`: {error}"
        yield Done(table=table, rows=rows, stopped=stop, verdict=verdict)
        if stopping():
            return
