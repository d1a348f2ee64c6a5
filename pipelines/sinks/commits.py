"""What the chained commits of every target have in common: owner, metadata, attempts, a new name.

An attempt may fail although its commit succeeded, with only the answer lost. So after each one the
chain looks into its target: the commit is there and ours, another run's is there, or nothing
changed and the attempt may be repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar

from josefine_spark.base.topic_offsets import nested
from pipelines.exactly_once.checkpoint_start import Unreadable
from pipelines.exactly_once.offset_chain import Commit, HandedOn, Stop, Tip, Verdict
from pipelines.exactly_once.other_chains import ChainName
from pipelines.model.retry_policy import ATTEMPTS_MAX, Retry, retry_of
from pipelines.sinks.delta_log import FORMAT, LogEntry

T = TypeVar("T")

FACTS = {
    "columns", "dead_letters", "deployed", "fields", "held", "held_from", "judged_by", "keys",
    "letters", "mode", "removed", "state", "tables",
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

    def under(self, name: ChainName) -> Link:
        """The same run as the owner of the chain of another name."""
        return Link(pipeline=name.pipeline, sink=name.sink, run=self.run)


def facts_of(tip: Tip) -> dict[str, Any]:
    """The facts that a commit on behalf of the sink has to repeat."""
    return {name: tip.said[name] for name in FACTS & tip.said.keys()}


def lost_race() -> StoppedError:
    """Another run has committed to this chain: this one must stop."""
    return StoppedError(Stop(verdict=Verdict.LOST_RACE))


def is_ours(said: Mapping[str, Any], number: int | None, link: Link, made: tuple[int, int]) -> bool:
    """Whether the metadata `said` of commit `number` is that of `made`, (batch id, number), by this
    run: a batch id alone repeats after a lost checkpoint, and a number belongs to any run."""
    return (said.get("run"), said.get("batch"), number) == (link.run, *made)


@dataclass(frozen=True, slots=True)
class Attempts:
    """The attempts of a commit, or of another step that is safe to repeat."""

    on_retry: Callable[[int, Retry], None]
    """Called with the batch id before each pause."""
    pause: Callable[[float], None]
    """Sleeps, in seconds: the n-th time n times as long as the failure's kind asks for."""

    def commit(
        self,
        batch_id: int,
        write: Callable[[], object],
        look: Callable[[Exception | None], LogEntry | None],
        *,
        retry_of: Callable[[Exception], Retry | None] = retry_of,
        attempts_max: int = ATTEMPTS_MAX,
    ) -> LogEntry:
        """Write until `look` finds the commit, also after a failure, which it is given.

        `look` raises StoppedError for another run's commit. So does this, if a write succeeded and
        nothing is there: the target skipped it, because the number was taken. Raises the failure
        of the last attempt; other errors of `look` end the attempts, for what they leave unknown.
        """
        for attempt in range(1, attempts_max + 1):
            failure: Exception | None = None
            try:
                write()
            except Exception as error:
                failure = error
            entry = look(failure)
            if entry is not None:
                return entry
            if failure is None:
                raise lost_race()
            self._wait(failure, retry_of(failure), attempt, attempts_max, batch_id)
        raise AssertionError("unreachable")

    def repeat(
        self, batch_id: int, do: Callable[[], T], retry_of: Callable[[Exception], Retry | None]
    ) -> T:
        """An idempotent step, repeated while `retry_of` names a reason to; raises its last
        error."""
        for attempt in range(1, ATTEMPTS_MAX + 1):
            try:
                return do()
            except Exception as error:
                self._wait(error, retry_of(error), attempt, ATTEMPTS_MAX, batch_id)
        raise AssertionError("unreachable")

    def _wait(
        self,
        failure: Exception,
        retry: Retry | None,
        attempt: int,
        attempts_max: int,
        batch_id: int,
    ) -> None:
        if retry is None or attempt == attempts_max:
            raise failure
        self.on_retry(batch_id, retry)
        self.pause(retry.pause_s * attempt)


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
        raise lost_race()
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
