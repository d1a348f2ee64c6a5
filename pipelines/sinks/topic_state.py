"""A topic sink's chain as the brokers' record of the sink has it: end offsets and owner. Pure.

The record belongs to the exactly-once sink (`josefine_spark.write.state`): its last decision, with
the metadata of a Delta commit (userMetadata) as a note. So the rows of a batch and the offsets that
they reached become visible in one write.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from josefine_spark.base.topic_offsets import TopicOffsets, flat, nested
from josefine_spark.write.state import NUMBERED, Batch, SinkState
from pipelines.exactly_once.checkpoint_start import Unreadable
from pipelines.exactly_once.offset_chain import Commit, HandedOn, Tip
from pipelines.exactly_once.other_chains import ChainName, OtherChain
from pipelines.sinks.delta_log import FORMAT


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A topic by its name and its id: a recreated topic is another one."""

    topic: str
    topic_id: str

    def to_json(self) -> dict[str, str]:
        return {"topic": self.topic, "id": self.topic_id}


def said_by(decided: Batch | None) -> Mapping[str, Any] | None:
    """The metadata of a pipeline's batch; None if it is of another writer or a later version."""
    if decided is None or decided.query_id != NUMBERED:
        return None
    try:
        said = json.loads(decided.note)
    except ValueError:
        return None
    return said if isinstance(said, dict) and said.get("josefine") == FORMAT else None


def end_of(state: SinkState, target: Target) -> Tip | Unreadable | HandedOn | None:
    """The end of a sink's chain in this topic, by its own record; None: nothing was decided."""
    decided = state.decided
    if decided is None:
        return None
    version, said = decided.batch_id, said_by(decided)
    if said is None:
        hint = f"its record in the brokers has a batch of {decided.query_id} that no pipeline wrote"
        return Unreadable(txn_version=version, hint=hint)
    if said.get("target") != target.to_json():
        # The topic was recreated: this one has no rows of the chain. Its numbers still continue.
        return Tip(reached=TopicOffsets(), txn_version=version)
    if said.get("handed_to"):
        return HandedOn(to=said["handed_to"], txn_version=version)
    reached = _reached(said)
    if reached is None:
        hint = "its record in the brokers has no offsets that we can read"
        return Unreadable(txn_version=version, hint=hint)
    return Tip(reached=reached, txn_version=version, said=said)


def taken_over(
    own: HandedOn | None, states: Iterable[SinkState], app_id: str, target: Target
) -> Tip | None:
    """The end of the chain that another name handed to `app_id`; None if `app_id` has handed it on
    since. Numbers continue across a hand-over, so the highest one is the latest."""
    newest = None
    for state in states:
        said = said_by(state.decided)
        if (
            said is None
            or said.get("handed_to") != app_id
            or said.get("target") != target.to_json()
        ):
            continue
        reached = _reached(said)
        assert state.decided is not None
        version = state.decided.batch_id
        if reached is not None and version > max(
            own.txn_version if own else 0, newest.txn_version if newest else 0
        ):
            newest = Tip(reached=reached, txn_version=version, said=said)
    return newest


def other_chains(states: Iterable[SinkState], own: ChainName, target: Target) -> list[OtherChain]:
    """The chains of other names that write this topic and were not handed on."""
    found = []
    for state in states:
        said = said_by(state.decided)
        if said is None or said.get("handed_to") or said.get("target") != target.to_json():
            continue
        name = ChainName(pipeline=str(said.get("pipeline")), sink=str(said.get("sink")))
        if name != own:
            found.append(OtherChain(name=name, reached=_reached(said)))
    return found


def batch_of(commit: Commit, said: Mapping[str, Any], target: Target) -> Batch:
    """The batch that decides a commit. Its number is the chain's, never Spark's; the fingerprint is
    made from the start and end offsets."""
    ends = [
        nested(commit.start),
        nested(commit.end.ends),
        dict(sorted(commit.end.topic_ids.items())),
    ]
    return Batch(
        query_id=NUMBERED,
        batch_id=commit.txn_version,
        fingerprint=hashlib.sha256(json.dumps(ends).encode()).hexdigest()[:32],
        note=json.dumps({**said, "target": target.to_json()}),
    )


def _reached(said: Mapping[str, Any]) -> TopicOffsets | None:
    try:
        return TopicOffsets(ends=flat(said["end"]), topic_ids=dict(said["topic_ids"]))
    except (KeyError, TypeError, ValueError, AttributeError):
        return None
