"""What the chained commits of every target have in common: owner, metadata, and a new name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from josefine_spark.base.topic_offsets import nested
from pipelines.exactly_once.checkpoint_start import Unreadable
from pipelines.exactly_once.offset_chain import Commit, HandedOn, Stop, Tip, Verdict
from pipelines.exactly_once.other_chains import ChainName
from pipelines.sinks.delta_log import FORMAT

FACTS = {
    "columns", "dead_letters", "fields", "judged_by", "keys", "letters", "mode", "removed", "state",
}  # fmt: skip
"""The keys that `Link.facts` may have."""
NO_BATCH = -1
"""The batch id of a commit that a start makes, before any query runs."""


class StoppedError(Exception):
    """A refused commit, with its Stop."""

    def __init__(self, stop: Stop) -> None:
        super().__init__(stop.verdict.value)
        self.stop = stop


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """The owner of the commits: the parts of userMetadata that do not change during a run.

    `facts`: what the next run has to know about this one.
    """

    pipeline: str
    sink: str
    run: str
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> ChainName:
        return ChainName(pipeline=self.pipeline, sink=self.sink)

    @property
    def app_id(self) -> str:
        return self.name.app_id


def facts_of(tip: Tip) -> dict[str, Any]:
    """The facts that a commit on behalf of the sink has to repeat."""
    return {name: tip.said[name] for name in FACTS & tip.said.keys()}


class Handed(Protocol):
    """A chain under its old name, in any kind of target."""

    link: Link

    def load(self) -> Tip | Unreadable | HandedOn | None: ...

    def move(self, commit: Commit, **more: Any) -> None: ...


def hand_over(chain: Handed, app_id: str) -> None:
    """Hand the old name's chain on to `app_id`, in a commit with the old chain's next number: a run
    under the old name that commits at the same time takes the same number, so one of the two
    stops. Raises StoppedError."""
    tip = chain.load()
    if not isinstance(tip, Tip):
        raise StoppedError(Stop(verdict=Verdict.LOST_RACE))
    reached = tip.reached
    commit = Commit(start=reached.ends, end=reached, txn_version=tip.txn_version + 1)
    chain.link = replace(chain.link, facts=facts_of(tip))
    chain.move(commit, handed_to=app_id)


def said_of(
    link: Link, query_id: str, commit: Commit, batch_id: int, more: Mapping[str, Any] | None
) -> dict[str, Any]:
    """The metadata of a commit; `more` is added to the offsets."""
    value: dict[str, Any] = {
        "josefine": FORMAT,
        "pipeline": link.pipeline,
        "sink": link.sink,
        "start": nested(commit.start),
        "end": nested(commit.end.ends),
        "topic_ids": dict(sorted(commit.end.topic_ids.items())),
        "batch": batch_id,
        "query": query_id,
        "run": link.run,
        **link.facts,
    }
    return value | dict(more or {})
