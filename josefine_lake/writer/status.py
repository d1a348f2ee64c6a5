"""The state of table topics as their tables, topics and the group show it; no writer is asked.

A verdict here is the one that a start would give now, or the bad record at which a writer stopped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from josefine_broker.client.io_blocking import BlockingClient
from josefine_lake.config.table_topic import TableTopic
from josefine_lake.writer import verdicts
from josefine_lake.writer.delta_table import MisfitError, reached
from josefine_lake.writer.lag_age import lag_age_ms
from josefine_lake.writer.start import Ready, Sides, start
from josefine_lake.writer.table_writer import columns_of
from josefine_lake.writer.verdicts import StoppedTable
from josefine_lake.writer.worlds import noted_stop, world_of
from pipelines.exactly_once.offset_chain import Stop, Tip


@dataclass(frozen=True, slots=True, kw_only=True)
class TableStatus:
    """One table. `lag`: the offsets that its topic has and the table has not; None: unknown.
    `stopped`: why a writer would not continue; empty if it would."""

    table: TableTopic
    lag: int | None
    files: int
    bytes: int
    stopped: str
    lag_ms: int | None = None
    """The age of the oldest record that the table lacks; None: unknown."""

    def to_json(self) -> dict[str, Any]:
        return {
            "topic": self.table.topic,
            "location": self.table.location,
            "format": self.table.format.value,
            "lag": self.lag,
            "lag_ms": self.lag_ms,
            "files": self.files,
            "bytes": self.bytes,
            "stopped": self.stopped,
        }


def status(
    client: BlockingClient, tables: Mapping[str, TableTopic], env: Mapping[str, str]
) -> Iterator[TableStatus]:
    """Yield each table's state. Raises KafkaError, DeltaError and OSError."""
    for table in tables.values():
        try:
            yield _one(client, table, env)
        except StoppedTable as error:
            yield TableStatus(table=table, lag=None, files=0, bytes=0, stopped=str(error))


def _one(client: BlockingClient, table: TableTopic, env: Mapping[str, str]) -> TableStatus:
    """Raises StoppedTable."""
    columns = columns_of(table, env)
    # A look alone: nothing is committed through this world.
    world = world_of(table, client, env, lambda offsets: None)
    topic = world.log.look()
    sides = Sides(
        topic=topic,
        found=world.store.load(),
        others=world.store.others(),
        dead=None if world.letters is None else world.letters.load(),
        committed={p: at for p, at in world.committed().items() if p in topic.bounds},
    )
    found = start(table, sides)
    ends = world.log.stable_ends({p: bounds.latest for p, bounds in topic.bounds.items()})
    positions = found.positions if isinstance(found, Ready) else reached(sides.found).ends
    files, bytes_ = world.store.files_and_bytes()
    stopped = str(verdicts.by_chain(table, found)) if isinstance(found, Stop) else ""
    if not stopped and isinstance(sides.found, Tip):
        stopped = str(verdicts.other_mode(table, sides.found.said) or "")
    if not stopped:
        try:
            world.store.check(columns.schema)
        except MisfitError as error:
            stopped = str(verdicts.misfit(table, error))
    if not stopped and table.dead_letter is None:
        # With a dead-letter table, such a record no longer stops the writer.
        stopped = noted_stop(client, table.topic)
    return TableStatus(
        table=table,
        lag=sum(max(0, end - positions.get(p, 0)) for p, end in ends.items()),
        files=files,
        bytes=bytes_,
        stopped=stopped,
        lag_ms=lag_age_ms(world.log, positions, ends, world.wall_ms()),
    )
