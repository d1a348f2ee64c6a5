"""The timeline of a cluster: elections, changes of the ISR, fencing, repairs. No I/O.

Rules: the chain has every change of the metadata and no times, so an entry's time is when the
dashboard saw its block first; the blocks of the first poll are older than the dashboard, and have
none. A block that turns out to be on a dead branch stays, marked. What no block records (a broker
that does not answer, the repair of a log) is the difference of two polls.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Collection, Iterable, Mapping
from itertools import islice
from typing import Any

ENTRIES_MAX = 500
ELECTION, IN_SYNC, FENCING, REPAIR = "election", "in sync", "fencing", "repair"
TOPIC, ACCESS, BROKER, OTHER = "topic", "access", "broker", "other"
_KINDS = (
    ("isr by ", IN_SYNC),
    ("register broker", BROKER),
    ("remove broker", BROKER),
    ("create topic", TOPIC),
    ("delete topic", TOPIC),
    ("topic ", TOPIC),
    ("configure topic", TOPIC),
    ("reassign ", TOPIC),
    ("access: ", ACCESS),
    ("passwords: ", ACCESS),
    ("quotas: ", ACCESS),
)
"""Start of a block's description → the kind of its entry."""

Json = dict[str, Any]


def kind_of(block: Mapping[str, Any]) -> str:
    """The kind of entry that a block is. A decision without a broker moves leaders: an election."""
    what = block["what"]
    if block["kind"] == "empty":
        return ELECTION
    if what.startswith("controller: "):
        return FENCING if what.startswith("controller: broker ") else ELECTION
    return next((kind for start, kind in _KINDS if what.startswith(start)), OTHER)


class Timeline:
    """The newest entries. Mutable; one per dashboard."""

    def __init__(self) -> None:
        self._blocks: OrderedDict[str, Json] = OrderedDict()
        self._others: deque[Json] = deque(maxlen=ENTRIES_MAX)
        self._answers: dict[int, bool] = {}
        self._repairs: dict[tuple[int, str, int], str] = {}
        self._number = 0

    def see_chain(self, blocks: Iterable[Mapping[str, Any]], now_ms: int) -> None:
        """Add the blocks that are new, in the chain's order, and mark those that died."""
        is_first = not self._blocks
        for block in blocks:
            known = self._blocks.get(block["id"])
            if known is not None:
                known["dead"] = block["dead"]
                continue
            what, kind = block["what"], kind_of(block)
            if kind is ELECTION and block["kind"] == "empty":
                what = f"new controller in term {block['id'].partition(':')[0]}"
            self._blocks[block["id"]] = self._entry(
                None if is_first else now_ms, kind, what, block["id"], dead=block["dead"]
            )
        while len(self._blocks) > ENTRIES_MAX:
            self._blocks.popitem(last=False)

    def see_brokers(self, known: Collection[int], answering: Collection[int], now_ms: int) -> None:
        """Add which brokers do not answer any more, and which do again."""
        # A broker whose address was just learned has not been silent before.
        for id_ in sorted({*known, *self._answers}):
            before, now = self._answers.get(id_), id_ in answering
            if before is not None and before != now:
                what = "answers again" if now else "does not answer"
                self._others.append(self._entry(now_ms, BROKER, f"broker {id_} {what}"))
            if now or before:
                self._answers[id_] = now

    def see_repairs(self, logs: Mapping[int, Mapping[str, Any]], now_ms: int) -> None:
        """Add what is new of damaged segments. `logs`: broker → its page `/logs`."""
        now: dict[tuple[int, str, int], str] = {}
        for id_, page in logs.items():
            for each in page["damaged"]:
                key = id_, each["partition"], each["segment"]
                now[key] = each["state"]
                if self._repairs.get(key) != each["state"]:
                    what = f"{each['partition']} at offset {each['offset']}, broker {id_}: "
                    what += f"{each['state']}, {each['reason']}"
                    self._others.append(self._entry(now_ms, REPAIR, what))
        for id_, partition, segment in self._repairs.keys() - now.keys():
            if id_ in logs:  # a broker that does not answer has repaired nothing
                what = f"{partition}, broker {id_}: the segment at {segment} is whole again"
                self._others.append(self._entry(now_ms, REPAIR, what))
            else:
                now[id_, partition, segment] = self._repairs[id_, partition, segment]
        self._repairs = now

    def newest(self, count: int) -> list[Json]:
        """The newest entries first."""
        entries = sorted(
            [*self._blocks.values(), *self._others], key=lambda each: each["number"], reverse=True
        )
        return [*islice(entries, count)]

    def _entry(
        self, at_ms: int | None, kind: str, what: str, block: str = "", *, dead: bool = False
    ) -> Json:
        self._number += 1
        return {
            "number": self._number,
            "at_ms": at_ms,
            "kind": kind,
            "what": what,
            "block": block,
            "dead": dead,
        }
