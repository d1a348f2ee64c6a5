"""The state of archives as topic, archive and group show it; no writer is asked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from josefine_broker.base.archive_note import archive_note
from josefine_broker.client.io_blocking import BlockingClient
from josefine_lake.archive.notes import ArchiveNotes
from josefine_lake.archive.writer import ArchiveReader
from josefine_lake.config.table_topic import TableTopic
from josefine_lake.writer.delta_table import reached
from josefine_lake.writer.lag_age import lag_age_ms
from josefine_lake.writer.verdicts import StoppedTable
from josefine_lake.writer.worlds import world_of
from pipelines.exactly_once.checkpoint_start import Unreadable
from pipelines.exactly_once.offset_chain import HandedOn


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionStatus:
    """One partition. `local_start`: the first offset that brokers have; `archived`: the archive's
    end; `reported`: the end that brokers know of, None for none."""

    partition: int
    local_start: int
    archived: int
    reported: int | None
    stable_end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveStatus:
    """One archive. `stopped`: why retention waits until a person decides; empty if it does not."""

    topic: str
    location: str
    files: int
    bytes: int
    partitions: tuple[PartitionStatus, ...]
    stopped: str = ""
    lag_ms: int | None = None
    """The age of the oldest record that the archive lacks; None: unknown."""

    @property
    def lag(self) -> int:
        return sum(max(0, p.stable_end - p.archived) for p in self.partitions)

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "lag": self.lag}


def status(
    client: BlockingClient, archives: Mapping[str, TableTopic], env: Mapping[str, str]
) -> Iterator[ArchiveStatus]:
    """Yield each archive's state. Raises KafkaError, DeltaError and OSError."""
    for topic, archive in archives.items():
        try:
            yield _one(client, archive, env)
        except StoppedTable as error:
            where = archive.location
            yield ArchiveStatus(
                topic=topic, location=where, files=0, bytes=0, partitions=(), stopped=str(error)
            )


def _one(client: BlockingClient, archive: TableTopic, env: Mapping[str, str]) -> ArchiveStatus:
    world = world_of(archive, client, env, lambda offsets: None)
    reader = ArchiveReader(client, archive.topic)
    topic = reader.look()
    ends = reader.stable_ends({tp: bounds.latest for tp, bounds in topic.bounds.items()})
    found = world.store.load()
    archived = reached(found)
    reported = ArchiveNotes(client, archive.topic).committed()
    files, bytes_ = world.store.files_and_bytes()
    # The reason that a start would find now comes before the last one that a writer reported.
    stopped = ""
    if isinstance(found, Unreadable | HandedOn):
        stopped = "the archive's newest commit cannot be continued: restore the archive"
    elif archived.recreated({topic.name: topic.id}):
        stopped = "the archive is of an earlier topic of this name: give the topic another one"
    elif any(archived.ends.get(tp, 0) < each.offset for tp, each in reported.items()):
        stopped = "the archive has less than was committed: it was restored or created again"
    else:
        notes = [archive_note(each.metadata) for each in reported.values()]
        stopped = next((note.stopped for note in notes if note and note.stopped), "")
    partitions = tuple(
        PartitionStatus(
            partition=tp.partition,
            local_start=bounds.earliest,
            archived=archived.ends.get(tp, 0),
            reported=None if (each := reported.get(tp)) is None else each.offset,
            stable_end=ends[tp],
        )
        for tp, bounds in sorted(topic.bounds.items())
    )
    return ArchiveStatus(
        topic=archive.topic,
        location=archive.location,
        files=files,
        bytes=bytes_,
        partitions=partitions,
        stopped=stopped,
        lag_ms=lag_age_ms(reader, archived.ends, ends, world.wall_ms()),
    )


def hole(partition: PartitionStatus) -> tuple[int, int] | None:
    """The offsets that neither broker nor archive has, between both; None: there are none."""
    if partition.archived >= partition.local_start:
        return None
    return partition.archived, partition.local_start
