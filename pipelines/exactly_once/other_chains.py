"""Other chains in a sink's table: whether a sink without a commit may start its own. Pure.

A new name is a new chain: a renamed sink or pipeline would read its topics from the beginning into
a table that has their rows already. So another chain that read the same topics is a reason to stop,
until the user declares it the sink's old name (`--rename`) or the rows different (`--new-chain`).
A chain that reads other topics is ignored: several pipelines may fill one table.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from josefine_spark.base.topic_offsets import TopicIds, TopicOffsets
from pipelines.exactly_once.offset_chain import Stop, Verdict

_PREFIX = "josefine:"
"""Of Delta's `txn.appId`; applications with other ids may write to the same table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainName:
    """The owner of a chain: a sink of a pipeline, or its `dead_letter.SOURCE`."""

    pipeline: str
    sink: str

    @property
    def app_id(self) -> str:
        """The id in Delta's `txn` action: one per pipeline and sink."""
        return f"{_PREFIX}{self.pipeline}:{self.sink}"

    def __str__(self) -> str:
        return f"`{self.sink}` of pipeline `{self.pipeline}`"


def name_of(app_id: str) -> ChainName | None:
    """The name in a transaction's id; None for one that is not of a pipeline."""
    pipeline, separator, sink = app_id.removeprefix(_PREFIX).partition(":")
    if not app_id.startswith(_PREFIX) or not separator:
        return None
    return ChainName(pipeline=pipeline, sink=sink)


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherChain:
    """Another chain in the table, by its newest commit. `reached` None: it is unreadable."""

    name: ChainName
    reached: TopicOffsets | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeOver:
    """Continue the chain of another name."""

    other: OtherChain


def begins(
    own: ChainName,
    others: Sequence[OtherChain],
    topic_ids: TopicIds,
    *,
    siblings: Collection[str] = (),
    renames: Mapping[str, str],
    new_chains: Collection[str],
) -> TakeOver | Stop | None:
    """What a sink without a commit does in this table; None: it starts a chain.

    `topic_ids`: what its source reads now. `siblings`: names in this pipeline that write to the
    same table by design. `renames`: old name → new name, of sinks, sources and the pipeline.
    """
    # Two sinks of one file may fill one table: the user wrote both, so that is no accident.
    live = [o for o in others if not (o.name.pipeline == own.pipeline and o.name.sink in siblings)]
    renamed = [other for other in live if _renamed(other.name, renames) == own]
    if len(renamed) == 1:
        other = renamed[0]
        # Its end offsets are unknown, so nothing could continue there.
        if other.reached is None:
            detail = f"the last commit of {other.name} cannot be read"
            return Stop(verdict=Verdict.TABLE_UNREADABLE, detail=detail)
        return TakeOver(other=other)
    # Two old names for one new one are as much a question for the user as none.
    same = renamed or [other for other in live if _same_topics(other, topic_ids)]
    if not same or (own.sink in new_chains and not renamed):
        return None
    detail = ", ".join(str(other.name) for other in same)
    return Stop(verdict=Verdict.OTHER_CHAIN, detail=detail)


def rename_options(own: ChainName, old: ChainName) -> str:
    """The options that declare `old` to be `own` now."""
    pairs = [(old.pipeline, own.pipeline), (_word(old.sink), _word(own.sink))]
    return " ".join(f"--rename {a}={b}" for a, b in pairs if a != b)


def _renamed(old: ChainName, renames: Mapping[str, str]) -> ChainName:
    """The name that the options give to `old`; a prefix as of dead letters stays."""
    word = _word(old.sink)
    sink = old.sink.removesuffix(word) + renames.get(word, word)
    return ChainName(pipeline=renames.get(old.pipeline, old.pipeline), sink=sink)


def _word(sink: str) -> str:
    """The name in the pipeline file: dead letters are named after their source."""
    return sink.rpartition(".")[2]


def _same_topics(other: OtherChain, topic_ids: TopicIds) -> bool:
    """Whether the other chain read a topic that is read now; a recreated topic is another one."""
    # Its topics are unknown: assume the worst, because rows written twice cannot be found again.
    if other.reached is None:
        return True
    known = other.reached.topic_ids
    return any(
        topic in known and (not known[topic] or not now or known[topic] == now)
        for topic, now in topic_ids.items()
    )
