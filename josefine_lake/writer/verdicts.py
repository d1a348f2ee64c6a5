"""The reasons that stop one table, with what a user can do. Pure.

Each names the table, what is wrong and the way out. Other tables continue.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from josefine_broker.base.archive_note import ARCHIVE_GROUP
from josefine_lake.config.leases import GROUP
from josefine_lake.config.table_topic import ARCHIVE_LOCATION, PREFIX, TableTopic
from pipelines.exactly_once.offset_chain import Stop, Verdict
from pipelines.model.schema_evolution import other_rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped:
    """Why a table is not written. `verdict`: of the offset chain; None for another reason."""

    what: str
    ways: tuple[str, ...] = ()
    verdict: Verdict | None = None

    def __str__(self) -> str:
        return "\n".join([self.what, *(f"  {way}" for way in self.ways)])


class StoppedTable(Exception):
    """A table that is not written further; a person has to decide."""

    def __init__(self, stopped: Stopped) -> None:
        super().__init__(str(stopped))
        self.stopped = stopped


def stopped(table: TableTopic, what: str, *ways: str) -> StoppedTable:
    """A stop by something other than the chain."""
    text = f"table of topic `{table.topic}` ({table.location}) stopped, nothing was written: {what}"
    return StoppedTable(Stopped(what=text, ways=ways))


def by_chain(table: TableTopic, stop: Stop) -> Stopped:
    """The stop of a chain, with the commands that resolve it."""
    where = ", ".join(map(str, stop.partitions))
    text = f"table of topic `{table.topic}` ({table.location}) stopped, nothing was written: "
    text += stop.verdict.value + (f" ({where})" if where else "")
    text += f"; {stop.detail}" if stop.detail else ""
    return Stopped(what=text, ways=_ways(table, stop.verdict), verdict=stop.verdict)


def _ways(table: TableTopic, verdict: Verdict) -> tuple[str, ...]:
    """The commands, one per line; none where waiting is the only right thing."""
    trust, group = _trust(table), ARCHIVE_GROUP if table.is_archive else GROUP
    if verdict is Verdict.TOPIC_SHORTER:
        return ("wait until the brokers have recovered: the writer tries again",)
    if verdict is Verdict.LOST_RACE:
        return ("let one writer continue; the table follows it",)
    if verdict is Verdict.TOPIC_RECREATED and not table.is_archive:
        return (f"{trust}  # keep the old rows, read the new topic from its start",)
    if verdict is Verdict.RECORDS_LOST:
        return (f"{trust}  # continue after the lost records",)
    if verdict in (Verdict.TABLE_HAS_NOTHING, Verdict.TABLE_BEHIND):
        return (
            "bring the table back (a copy, RESTORE)",
            f"{trust}  # continue where the table ends now, without what group {group} has",
        )
    if verdict is Verdict.DEAD_LETTERS_GONE:
        return ("bring the dead-letter table back", f"{trust}  # continue without them")
    return move(table)


def other_mode(table: TableTopic, said: Mapping[str, Any]) -> StoppedTable | None:
    """The stop of a table whose commits changed rows in another way. `said`: the metadata of the
    newest one."""
    other = other_rows(said, table.mode.value, table.keys)
    if not other:
        return None
    what = other.replace("the file", "the topic")
    return stopped(table, f"the table {what}", *move(table))


def misfit(table: TableTopic, why: object) -> StoppedTable:
    """The stop of a table that cannot take the topic's rows."""
    return stopped(table, f"the table does not fit the topic: {why}", *move(table))


def _trust(table: TableTopic) -> str:
    what, verb = ("archive", "archive") if table.is_archive else ("table", "tables")
    return f"josefine {verb} run --topic {table.topic} --trust {what} --once"


def move(table: TableTopic) -> tuple[str, ...]:
    """The commands for a new table. The second one is needed because the group has offsets of the
    old one: without it the new table seems to have lost its rows."""
    key = ARCHIVE_LOCATION if table.is_archive else f"{PREFIX}location"
    start = "is filled from the topic's start"
    if table.is_archive:
        start = "has only what brokers still have: nobody reads the old one's records any more"
    return (
        f"josefine topics alter {table.topic} --config {key}=/ANOTHER/TABLE",
        f"{_trust(table)}  # the new table {start}",
    )
