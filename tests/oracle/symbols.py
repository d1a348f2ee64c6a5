"""Values that each broker chose itself, under names that both sides share.

A generated request has `Ref("member", ("g1", "m1"))` where a member id belongs; each side puts in
the id that its own broker gave. In answers the reverse: what a broker made up becomes the number of
its first appearance, so that equal histories give equal trees.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from tests.oracle.records import Batch
from tests.oracle.shapes import ZERO_ID, Tree

NUMBERED = {
    "topic_id": "topic id",
    "member_id": "member",
    "leader": "member",  # of JoinGroup: a member's id
    "producer_id": "producer",
    "ongoing_txn_producer_id": "producer",
    "session_id": "session",
    "member_epoch": "group epoch",
    "group_epoch": "group epoch",
    "assignment_epoch": "group epoch",
}
"""Fields whose value the broker makes up, with the kind that they share numbers in."""

PLAIN = (None, "", 0, -1, -2, ZERO_ID)
"""Values of those fields that nobody made up."""


@dataclass(frozen=True, slots=True)
class Ref:
    """A value that each side has learned for itself; `default` before it has; `plus` is added."""

    kind: str
    key: Hashable
    default: Any
    plus: int = 0

    def __repr__(self) -> str:
        plus = f"{self.plus:+}" if self.plus else ""
        return f"<{self.kind} {self.key}{plus}>"


@dataclass(slots=True)
class Learned:
    """One side's values in one episode."""

    values: dict[tuple[str, Hashable], Any] = field(default_factory=dict)
    numbers: dict[str, dict[Any, int]] = field(default_factory=dict)
    given: set[tuple[str, Any]] = field(default_factory=set)
    """Values that the generator chose itself: they are compared as they are."""

    def learn(self, kind: str, key: Hashable, value: Any) -> None:
        """The newest value counts."""
        self.values[kind, key] = value

    def resolve(self, value: Any) -> Any:
        """A tree with every Ref replaced."""
        if isinstance(value, Ref):
            known = self.values.get((value.kind, value.key), value.default)
            return known + value.plus if value.plus else known
        if isinstance(value, Batch):
            identity = self.resolve(value.producer_id), self.resolve(value.producer_epoch)
            return value.build(*identity)
        if isinstance(value, dict):
            return {name: self.resolve(each) for name, each in value.items()}
        if isinstance(value, list):
            return [self.resolve(each) for each in value]
        return value

    def remember_given(self, tree: Any) -> None:
        """Ids in a request before its Refs are replaced: the generator's own."""
        if isinstance(tree, dict):
            for name, value in tree.items():
                kind = NUMBERED.get(name.removeprefix("v3_and_below_"))
                if kind not in (None, "group epoch") and not isinstance(value, Ref):
                    self.given.add((kind, value))
                self.remember_given(value)
        elif isinstance(tree, list):
            for each in tree:
                self.remember_given(each)

    def known_name(self, field_name: str, value: Any) -> Any:
        """The name of an id that has a number, or that is plain; None where it is a new one."""
        kind = NUMBERED[field_name]
        if value in PLAIN or (kind, value) in self.given:
            return str(value) if isinstance(value, UUID) else value
        number = self.numbers.get(kind, {}).get(value)
        return None if number is None else f"<{kind} {number}>"

    def name(self, field_name: str, value: Any) -> Any:
        """The name of an id; a new one gets the next number."""
        found = self.known_name(field_name, value)
        if value in PLAIN or found is not None:
            return found
        numbers = self.numbers.setdefault(NUMBERED[field_name], {})
        numbers[value] = len(numbers) + 1
        return self.known_name(field_name, value)


def learn_from(learned: Learned, label: Hashable, request: Tree, answer: Tree) -> None:
    """What later requests may name: `label` is the slot that the request was made for."""
    is_made = not request.get("validate_only")  # else Kafka's CreateTopics makes an id up
    for topic in answer.get("topics") or ():
        is_there = topic.get("error_code") == "NONE" and topic.get("topic_id", ZERO_ID).int
        if topic.get("name") and is_there and is_made:
            learned.learn("topic_id", topic["name"], topic["topic_id"])
        for part in topic.get("partitions") or ():
            if isinstance(part, dict) and part.get("leader_epoch", -1) >= 0 and topic.get("name"):
                key = (topic["name"], part["partition_index"])
                learned.learn("leader_epoch", key, part["leader_epoch"])
    if answer.get("session_id"):
        learned.learn("session", label, answer["session_id"])
    if answer.get("member_id"):
        learned.learn("member", label, answer["member_id"])
    if answer.get("error_code") != "NONE":
        return
    for kind in ("generation_id", "member_epoch", "producer_id", "producer_epoch"):
        value = answer.get(kind, -1)
        if value >= 0:
            learned.learn(kind, label, value)
            if kind == "generation_id" and isinstance(label, tuple):
                learned.learn(kind, label[0], value)
