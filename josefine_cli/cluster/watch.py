"""`josefine cluster watch`: live brokers, leaders and in-sync replicas, as they change.

A terminal shows one view, updated in place, with the last changes below it; other outputs get one
line per change. The differences of two consecutive polls are reported: a change that is undone
between them is not seen.
"""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from josefine_cli.base.admin import ask
from josefine_cli.base.errors import UserError
from josefine_cli.base.output import is_terminal, iso_time, plural, print_json, table_of
from josefine_cli.cluster.local import DEFAULT_DIRECTORY
from josefine_cli.cluster.target import Admin, AsJson, Directory, admin_urls
from josefine_cli.cluster.view import (
    View,
    admin_url,
    first_view,
    joined,
    newest,
    place,
    role,
)

if TYPE_CHECKING:
    from rich.console import RenderableType

EVERY_S = 1.0
PARTITIONS_SHOWN_MAX = 20
"""A broker that fails changes hundreds of partitions at once: of more, only the number is shown."""
CHANGES_KEPT = 100
SILENT = "silent"
NO_CONTROLLER = -1


class Answer(NamedTuple):
    """One broker's view of the cluster; None: no answer."""

    view: View | None
    answered_ms: int


class Standing(NamedTuple):
    """The leader and the in-sync replicas of a partition."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Scene:
    """The watched state of a cluster at one poll."""

    controller: int
    term: int
    brokers: Mapping[int, str]
    """Id → its state, and whether it does not answer."""
    partitions: Mapping[tuple[str, int], Standing]


def scene_of(answers: Mapping[int, Answer], before: Scene | None) -> Scene:
    """The scene of the newest view. Without an answer it stays unchanged, with silent brokers."""
    best = best_of(answers)
    if best is None:
        known = {} if before is None else before.brokers
        silent = dict.fromkeys({*known, *answers}, SILENT)
        return Scene(NO_CONTROLLER, 0, silent, {} if before is None else before.partitions)
    brokers = {}
    for broker in best["brokers"]:
        answer = answers.get(broker["id"])
        is_silent = answer is not None and answer.view is None
        brokers[broker["id"]] = f"{place(broker)}, {SILENT}" if is_silent else place(broker)
    partitions = {
        (each["topic"], each["partition"]): Standing(
            each["leader"], each["leader_epoch"], tuple(each["isr"])
        )
        for each in best["partitions"]
    }
    return Scene(best["raft"]["leader"], best["raft"]["term"], brokers, partitions)


def best_of(answers: Mapping[int, Answer]) -> View | None:
    """The newest view; None: no broker answers."""
    return newest(each.view for each in answers.values())


def changes(before: Scene, after: Scene) -> Iterator[str]:
    """The differences of two polls, one sentence each."""
    if before.controller != after.controller:
        names = [_named(each.controller) for each in (before, after)]
        yield f"controller: {names[0]} -> {names[1]}, term {after.term}"
    for id_ in sorted({*before.brokers, *after.brokers}):
        was, is_ = before.brokers.get(id_), after.brokers.get(id_)
        if was is None:
            yield f"broker {id_} is new, {is_}"
        elif is_ is None:
            yield f"broker {id_} is removed"
        elif was != is_:
            yield f"broker {id_}: {was} -> {is_}"
    yield from _changed_topics(before, after)
    yield from _changed_partitions(before, after)


def _named(broker_id: int) -> str:
    return "none" if broker_id < 0 else str(broker_id)


def _changed_topics(before: Scene, after: Scene) -> Iterator[str]:
    was, is_ = _sizes(before), _sizes(after)
    for topic in sorted(was.keys() | is_.keys()):
        if topic not in was:
            yield f"topic {topic} is new, {plural(is_[topic], 'partition')}"
        elif topic not in is_:
            yield f"topic {topic} is gone"
        elif was[topic] != is_[topic]:
            yield f"topic {topic}: {was[topic]} -> {plural(is_[topic], 'partition')}"


def _sizes(scene: Scene) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for topic, _ in scene.partitions:
        sizes[topic] = sizes.get(topic, 0) + 1
    return sizes


def _changed_partitions(before: Scene, after: Scene) -> Iterator[str]:
    moved = [
        (key, before.partitions[key], standing)
        for key, standing in after.partitions.items()
        if key in before.partitions and before.partitions[key] != standing
    ]
    for (topic, index), was, is_ in moved[:PARTITIONS_SHOWN_MAX]:
        parts = []
        if was.leader != is_.leader:
            parts.append(f"leader {_named(was.leader)} -> {_named(is_.leader)}")
        elif was.leader_epoch != is_.leader_epoch:
            parts.append(f"leader {_named(is_.leader)} again")
        if was.isr != is_.isr:
            parts.append(f"in sync {joined(was.isr)} -> {joined(is_.isr)}")
        yield f"{topic}-{index}: {', '.join(parts)} (epoch {is_.leader_epoch})"
    if len(moved) > PARTITIONS_SHOWN_MAX:
        yield f"and {plural(len(moved) - PARTITIONS_SHOWN_MAX, 'more partition')} changed"


class Poller:
    """The repeated polls. Mutable: it learns the addresses of brokers, and so continues when the
    first one fails."""

    def __init__(self, urls: Sequence[str]) -> None:
        """Raises UserError if no broker answers."""
        first = first_view(urls)
        self._urls: dict[int, str] = {}
        self._learn(first)
        self._urls.setdefault(first["broker_id"], next(iter(urls)))

    def poll(self) -> dict[int, Answer]:
        """Query every known broker."""
        with ThreadPoolExecutor(max_workers=max(1, len(self._urls))) as pool:
            found = dict(zip(self._urls, pool.map(_ask, self._urls.values()), strict=True))
        best = best_of(found)
        if best is not None:
            self._learn(best)
            there = {each["id"] for each in best["brokers"]}
            self._urls = {id_: url for id_, url in self._urls.items() if id_ in there}
        return found

    def _learn(self, view: View) -> None:
        for broker in view["brokers"]:
            url = admin_url(broker)
            if url is not None:
                self._urls[broker["id"]] = url


def _ask(url: str) -> Answer:
    began = time.monotonic()
    try:
        view: View | None = ask(url, "/cluster")
    except UserError:
        view = None
    return Answer(view, round((time.monotonic() - began) * 1000))


def watch(
    every: Annotated[
        float, typer.Option(min=0.1, max=3_600, help="Seconds between two polls.")
    ] = EVERY_S,
    directory: Directory = DEFAULT_DIRECTORY,
    admin: Admin = None,
    as_json: AsJson = False,
) -> None:
    """Show live brokers, leaders and in-sync replicas as they change, until Ctrl-C.

    Without a terminal, and with --json, each change is a line.

    \b
    josefine cluster watch
    josefine cluster watch --every 1 --json
    """
    poller = Poller(admin_urls(admin, directory))
    try:
        if is_terminal(sys.stdout) and not as_json:
            _in_place(poller, every)
        else:
            _as_lines(poller, every, as_json=as_json)
    except KeyboardInterrupt:
        return


def _as_lines(poller: Poller, every_s: float, *, as_json: bool) -> None:
    scene = scene_of(poller.poll(), None)
    _tell([summary(scene)], as_json=as_json)
    while True:
        time.sleep(every_s)
        before, scene = scene, scene_of(poller.poll(), scene)
        _tell(changes(before, scene), as_json=as_json)


def _tell(sentences: Iterable[str], *, as_json: bool) -> None:
    now = iso_time(time.time_ns() // 1_000_000)
    for each in sentences:
        if as_json:
            print_json({"time": now, "change": each})
        else:
            print(f"{now} {each}")
    sys.stdout.flush()


def _in_place(poller: Poller, every_s: float) -> None:
    from rich.console import Console
    from rich.live import Live

    console = Console(highlight=False)
    sentences: deque[str] = deque(maxlen=CHANGES_KEPT)
    answers = poller.poll()
    scene = scene_of(answers, None)
    with Live(_shown(scene, answers, sentences, console.height), console=console) as live:
        while True:
            time.sleep(every_s)
            answers = poller.poll()
            before, scene = scene, scene_of(answers, scene)
            now = datetime.now().strftime("%H:%M:%S")
            sentences.extend(f"{now} {each}" for each in changes(before, scene))
            live.update(_shown(scene, answers, sentences, console.height), refresh=True)


def _shown(
    scene: Scene, answers: Mapping[int, Answer], sentences: Sequence[str], height: int
) -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    room = max(1, height - len(scene.brokers) - 4)
    recent = Text("\n".join(list(sentences)[-room:]), overflow="ellipsis", no_wrap=True)
    return Group(summary(scene), table_of(COLUMNS, rows(scene, answers)), "", recent)


COLUMNS = ("broker", "place", "role", "answers", "leads", "in sync")


def rows(scene: Scene, answers: Mapping[int, Answer]) -> list[tuple[Any, ...]]:
    """A row of the table for each broker, in the order of COLUMNS."""
    best = best_of(answers)
    found = []
    for id_, its_place in sorted(scene.brokers.items()):
        answer = answers.get(id_)
        is_there = answer is not None and answer.view is not None
        copies = 0 if best is None else sum(id_ in p["replicas"] for p in best["partitions"])
        in_sync = sum(id_ in each.isr for each in scene.partitions.values())
        found.append(
            (
                id_,
                its_place,
                "-" if best is None else role(best, id_),
                f"{answer.answered_ms} ms" if answer is not None and is_there else "-",
                sum(each.leader == id_ for each in scene.partitions.values()),
                f"{in_sync} of {copies}",
            )
        )
    return found


def summary(scene: Scene) -> str:
    """The cluster in a line."""
    leader = "no controller" if scene.controller < 0 else f"controller {scene.controller}"
    offline = sum(each.leader < 0 for each in scene.partitions.values())
    return (
        f"{leader}, term {scene.term}: {plural(len(scene.brokers), 'broker')}, "
        f"{plural(len(_sizes(scene)), 'topic')}, {plural(len(scene.partitions), 'partition')}, "
        f"{offline} offline"
    )
