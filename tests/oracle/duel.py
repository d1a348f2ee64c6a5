"""One episode against both brokers: each request to both, both answers compared."""

from __future__ import annotations

import select
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from time import monotonic

from josefine_broker.wire.apis import APIS, JOIN_GROUP, SYNC_GROUP
from tests.oracle.author import Step
from tests.oracle.compare import Difference, differences
from tests.oracle.known import explanation
from tests.oracle.normalise import NO_ANSWER, normalise
from tests.oracle.pools import Names
from tests.oracle.row import Known, names_twice
from tests.oracle.settle import settle
from tests.oracle.shapes import Tree
from tests.oracle.side import Side, owes_no_answer
from tests.oracle.symbols import learn_from

PARKS = (JOIN_GROUP, SYNC_GROUP)
"""Requests whose answers wait for other requests of the episode."""
PARKED_AFTER_S = 0.4
"""When neither has answered one of those by then, both wait: the episode goes on."""
BOTH_BUSY_S = 30.0
"""How long both may take over any other request: a change must be done before the next request."""
PATIENCE_S = 5.0
"""How long one may take longer than the other, on a machine that others use."""
CONNECTIONS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A request whose answers differ in a way that no row explains."""

    episode: int
    at: int
    step: Step
    differences: tuple[Difference, ...]

    def __str__(self) -> str:
        lines = [f"episode {self.episode}, request {self.at}: {self.step.name}"]
        lines += [f"  {each}" for each in self.differences[:6]]
        if len(self.differences) > 6:
            lines.append(f"  and {len(self.differences) - 6} more")
        lines.append(f"  request: {self.step.tree}")
        lines.append(f"  replay: .venv/bin/python -m tests.oracle.run --first {self.episode} 1")
        return "\n".join(lines)


@dataclass(slots=True)
class Duel:
    """Both sides of one episode, and what was found."""

    ours: Side
    theirs: Side
    number: int
    say: Callable[[str], None] | None = None
    is_survey: bool = False
    """Go on after a difference, though what follows may only be its consequence."""
    sent: int = 0
    used: list[Known] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    _waiting: dict[int, tuple[int, Step]] = field(default_factory=dict)

    def play(self, steps: list[Step]) -> list[Finding]:
        """Until the first difference that no row explains, or one that ends the episode."""
        try:
            for at, step in enumerate(steps):
                if not self._turn(at, step):
                    return self.findings
            for number in list(self._waiting):  # what still waits on both sides waits for nobody
                self._collect(number, PARKED_AFTER_S)
            return self.findings
        finally:
            self.ours.close()
            self.theirs.close()

    def _turn(self, at: int, step: Step) -> bool:
        """False ends the episode."""
        for number in list(self._waiting):
            if self._both(number) and not self._collect(number, PATIENCE_S):
                return False
        number = self._free(step.connection)
        if number is None or (owes_no_answer(step) and names_twice(step.tree)):
            return True  # left out on both sides: its effect could not be known
        for side in (self.ours, self.theirs):
            side.learned.remember_given(step.tree)
            side.send(step, number)
        self.sent += 1
        self._waiting[number] = (at, step)
        return self._collect(number, PARKED_AFTER_S if step.key in PARKS else BOTH_BUSY_S)

    def _free(self, wanted: int) -> int | None:
        order = [wanted, *range(CONNECTIONS)]
        return next((number for number in order if number not in self._waiting), None)

    def _both(self, number: int) -> bool:
        pair = [side.connections[number] for side in (self.ours, self.theirs)]
        for connection in pair:
            connection.read()
        return all(connection.answer is not None for connection in pair)

    def _collect(self, number: int, patience_s: float) -> bool:
        """Compare when both have answered; True as well while both wait."""
        pair = [side.connections[number] for side in (self.ours, self.theirs)]
        deadline, one_came = monotonic() + patience_s, False
        while not self._both(number):
            came = [connection.answer is not None for connection in pair]
            if any(came) and not one_came:
                deadline, one_came = monotonic() + PATIENCE_S, True
            if monotonic() > deadline:
                if not one_came:
                    return True
                break
            waiting = [c.socket for c, has in zip(pair, came, strict=True) if not has]
            select.select(waiting, [], [], 0.02)
        at, step = self._waiting.pop(number)
        silent: Tree = {"answer": f"none within {PATIENCE_S:.0f} s"}
        trees = [
            side.done(number) if connection.answer is not None else side.give_up(number, silent)
            for side, connection in zip((self.ours, self.theirs), pair, strict=True)
        ]
        return self._judge(at, step, trees[0], trees[1])

    def _judge(self, at: int, step: Step, ours: Tree, theirs: Tree) -> bool:
        """False ends the episode."""
        api, names = APIS[step.key].name, Names(self.number)
        for side, tree in ((self.ours, ours), (self.theirs, theirs)):
            learn_from(side.learned, step.label, step.tree, tree)
        here = normalise(api, ours, self.ours.learned, names)
        there = normalise(api, theirs, self.theirs.learned, names)
        if self.say is not None:
            self.say(f"{at:3} {step.name} {step.tree}\n    here  {here}\n    Kafka {there}")
        found = list(_differences(here, there))
        rows = [explanation(api, step.tree, each) for each in found]
        self.used += [row for row in rows if row is not None]
        left = tuple(each for each, row in zip(found, rows, strict=True) if row is None)
        if left:
            self.findings.append(Finding(episode=self.number, at=at, step=step, differences=left))
            if not self.is_survey:
                return False
        if any(row.ends for row in rows if row is not None):
            return False
        for side in (self.ours, self.theirs):
            settle(side, step.key, names)
        return True


def _differences(here: Tree, there: Tree) -> Iterator[Difference]:
    """Where only one has answered with a response, that alone."""
    if bool(here.keys() & NO_ANSWER) != bool(there.keys() & NO_ANSWER):
        said = [
            str(each if each.keys() & NO_ANSWER else {"answer": each}) for each in (here, there)
        ]
        yield Difference(path="answer", place="answer", ours=said[0], theirs=said[1])
    else:
        yield from differences(here, there)
