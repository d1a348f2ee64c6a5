"""The change from one pipeline file to another: a verdict per sink, with its reasons. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from pipelines.model.meaning import meaning_of, start_text
from pipelines.model.pipeline import Pipeline
from pipelines.model.plan import PipelinePlan, compile_plan

Columns = Mapping[str, str]
"""Column → its type, as Spark names it, in the table's order."""

_WIDER = {
    "tinyint": ("smallint", "int", "bigint"),
    "smallint": ("int", "bigint"),
    "int": ("bigint",),
    "float": ("double",),
}
"""Type → the types that hold all of its values."""


class Verdict(Enum):
    """What a change means for a sink's table; the value is the sentence a user reads."""

    SAME = "the same rows"
    COMPATIBLE = "compatible: the rows that are there stay right"
    OPEN = "open: only the rows show whether it changes them"
    BREAKING = "breaking: the rows that are there are not those that the new file writes"
    NEW = "a new sink: its table is filled from the start of its source"
    GONE = "the new file lacks this sink: its table stays as it is"


_BY_WEIGHT = (Verdict.COMPATIBLE, Verdict.OPEN, Verdict.BREAKING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """One difference. `part`: columns, keys, types, meaning, sources, mode, start or target."""

    part: str
    what: str
    verdict: Verdict = Verdict.BREAKING


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkChange:
    """A sink's verdict: the gravest of its reasons."""

    sink: str
    verdict: Verdict
    reasons: tuple[Reason, ...] = ()

    def lines(self) -> Iterator[str]:
        """For a terminal."""
        yield f"{self.sink}: {self.verdict.value}"
        for each in self.reasons:
            yield f"    {each.part}: {each.what} ({each.verdict.name.lower()})"

    def to_json(self) -> dict[str, Any]:
        reasons = [
            {"part": each.part, "what": each.what, "verdict": each.verdict.name.lower()}
            for each in self.reasons
        ]
        verdict = self.verdict.name.lower()
        return {"sink": self.sink, "verdict": verdict, "reasons": reasons}


def compare(
    old: Pipeline,
    new: Pipeline,
    old_columns: Mapping[str, Columns],
    new_columns: Mapping[str, Columns],
) -> list[SinkChange]:
    """A verdict for each sink of both files. The columns: sink → those of its table."""
    plans = compile_plan(old), compile_plan(new)
    found = []
    for name in dict.fromkeys([*new.sinks, *old.sinks]):
        if name not in old.sinks:
            found.append(SinkChange(sink=name, verdict=Verdict.NEW))
        elif name not in new.sinks:
            found.append(SinkChange(sink=name, verdict=Verdict.GONE))
        else:
            reasons = (*_meant(*plans, name), *_columns(old_columns[name], new_columns[name]))
            found.append(SinkChange(sink=name, verdict=_verdict(reasons), reasons=reasons))
    return found


def _verdict(reasons: tuple[Reason, ...]) -> Verdict:
    found = [each.verdict for each in reasons]
    return max(found, key=_BY_WEIGHT.index, default=Verdict.SAME)


def _columns(old: Columns, new: Columns) -> Iterator[Reason]:
    """Columns by their names without regard to letter case, as Delta compares them."""
    before = {name.lower(): kind for name, kind in old.items()}
    after = {name.lower(): kind for name, kind in new.items()}
    if gone := [name for name in old if name.lower() not in after]:
        yield Reason(part="columns", what=f"{', '.join(gone)} removed")
    if more := [name for name in new if name.lower() not in before]:
        what = f"{', '.join(more)} added: null in the rows that are there"
        yield Reason(part="columns", what=what, verdict=Verdict.COMPATIBLE)
    for name, kind in new.items():
        was = before.get(name.lower(), kind)
        if was != kind:
            is_wider = kind in _WIDER.get(was, ())
            what = f"{name} was {was}, is {kind}"
            verdict = Verdict.COMPATIBLE if is_wider else Verdict.BREAKING
            yield Reason(part="types", what=what, verdict=verdict)


def _meant(old: PipelinePlan, new: PipelinePlan, name: str) -> Iterator[Reason]:
    """Differences of the two meanings; one reason for each part that differs."""
    was, now = meaning_of(old, name), meaning_of(new, name)
    for part, word in (("mode", "mode"), ("keys", "keys"), ("path", "target")):
        before, after = was["sink"].pop(part), now["sink"].pop(part)
        if before != after:
            yield Reason(part=word, what=f"was {_short(before)}, is {_short(after)}")
    for key in now["sink"]:
        if was["sink"][key] != now["sink"][key]:
            yield Reason(part="meaning", what=f"`{key}` of the sink differs")
    for part, one in (("sources", "source"), ("transforms", "transform"), ("checks", "check")):
        word = "sources" if part == "sources" else "meaning"
        yield from _named(word, one, was[part], now[part])
    if was["lookups"] != now["lookups"]:
        yield Reason(part="meaning", what="a lookup table differs", verdict=Verdict.OPEN)
    if was["dead_letters"] != now["dead_letters"]:
        yield Reason(part="target", what="the dead-letter table is another one")
    starts = {each.name: start_text(each) for each in old.sinks[name].sources}
    for each in new.sinks[name].sources:
        if each.name in starts and starts[each.name] != start_text(each):
            what = f"`start` of source `{each.name}` differs; the deploy starts where the table did"
            yield Reason(part="start", what=what, verdict=Verdict.COMPATIBLE)


def _named(part: str, one: str, was: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[Reason]:
    # Without names: a renamed transform changes no row, if nothing else differs.
    if list(was.values()) == list(now.values()):
        return
    verdict = Verdict.BREAKING if part == "sources" else Verdict.OPEN
    for name in dict.fromkeys([*was, *now]):
        if name not in was:
            what = f"{one} `{name}` is new"
        elif name not in now:
            what = f"{one} `{name}` is gone"
        elif was[name] == now[name]:
            continue
        else:
            keys = ", ".join(key for key in now[name] if now[name][key] != was[name].get(key))
            what = f"{one} `{name}` differs in {keys.replace('said', 'sql')}"
        yield Reason(part=part, what=what, verdict=verdict)


def _short(value: Any) -> str:
    return ", ".join(map(str, value)) or "none" if isinstance(value, list) else str(value)
