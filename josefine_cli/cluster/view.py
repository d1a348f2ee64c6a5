"""The views that the brokers of a cluster have of it, fetched over HTTP, and the problems in them.

Each broker has its own view, so all are fetched to see whether they agree. Images are compared at
one height: views are fetched repeatedly until every broker was seen at a common height.
"""

from __future__ import annotations

import time
import urllib.parse
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from josefine_cli.base.admin import DEFAULT_ADMIN, ask
from josefine_cli.base.errors import UserError
from josefine_cli.base.waiting import waits

COMPARE_S = 3.0
"""How long views are fetched repeatedly while the images are at different heights."""
PAUSE_S = 0.1
WILDCARDS = ("0.0.0.0", "::")
"""Hosts that mean every address of the listening machine, and nothing to others."""

View = dict[str, Any]
"""The body of `/cluster`."""


@dataclass(slots=True)
class Survey:
    """Broker → its view, None for one that does not answer."""

    views: dict[int, View | None]
    digests: dict[int, dict[int, str]] = field(default_factory=dict)
    """Height → broker → digest of its image there."""

    @property
    def best(self) -> View:
        """The newest view."""
        found = newest(self.views.values())
        assert found is not None, "somebody answers"
        return found

    @property
    def formed(self) -> bool:
        """Whether any view has a cluster id, which the first block contains."""
        return bool(self.best["cluster_id"])

    @property
    def answering(self) -> set[int]:
        return {id_ for id_, view in self.views.items() if view is not None}

    def add(self, view: View) -> None:
        image = view["image"]
        at_height = self.digests.setdefault(image["height"], {})
        at_height[view["broker_id"]] = image["digest"]

    @property
    def common_height(self) -> int | None:
        """The newest height at which every answering broker was seen."""
        heights = [height for height, seen in self.digests.items() if self.answering <= set(seen)]
        return max(heights, default=None)

    @property
    def images_equal(self) -> bool | None:
        """Whether all images are equal; None: no common height, or no cluster yet."""
        height = self.common_height
        if height is None or not self.formed:
            return None
        return len(set(self.digests[height].values())) == 1


def newest(views: Iterable[View | None]) -> View | None:
    """The view with the highest commit; None if there is none."""
    known = [each for each in views if each is not None]
    return max(known, key=lambda each: (each["raft"]["term"], each["raft"]["commit"]), default=None)


def ask_first(urls: Sequence[str], path: str) -> dict[str, Any]:
    """The answer of the first broker that responds. Raises UserError if none does."""
    failure: UserError | None = None
    asked = ""
    with waits(lambda: f"an answer of {asked}"):
        for asked in urls:
            try:
                return ask(asked, path)
            except UserError as error:
                failure = failure or error
    assert failure is not None, "there is an address to ask"
    if list(urls) == [DEFAULT_ADMIN]:
        raise UserError(f"{failure}; --admin URL asks a broker elsewhere") from failure
    raise failure


def first_view(urls: Sequence[str]) -> View:
    """The view of the first broker that responds. Raises UserError if none does."""
    return ask_first(urls, "/cluster")


def take_survey(urls: Sequence[str], sleep: Callable[[float], None] = time.sleep) -> Survey:
    """Query every broker that any of these knows, and compare their images."""
    first = first_view(urls)
    admin = {each["id"]: admin_url(each) for each in first["brokers"]}
    admin.setdefault(first["broker_id"], next(iter(urls)))
    found = Survey(views={})
    deadline = time.monotonic() + COMPARE_S
    with waits(lambda: _compared(found)):
        _ask_until_common(found, admin, deadline, sleep)
    if not found.answering:
        raise UserError("no broker answers any more")
    return found


def _compared(found: Survey) -> str:
    silent = [id_ for id_, view in found.views.items() if view is None]
    of = f", of which {joined(silent)} do not answer" if silent else ""
    return f"the views of all brokers at one height{of}"


def _ask_until_common(
    found: Survey,
    admin: dict[int, str | None],
    deadline: float,
    sleep: Callable[[float], None],
) -> None:
    while True:
        found.views = _ask_all(admin)
        for view in found.views.values():
            if view is not None:
                found.add(view)
        if found.common_height is not None or time.monotonic() > deadline:
            return
        sleep(PAUSE_S)


def admin_url(broker: dict[str, Any]) -> str | None:
    """A broker's admin address; for a wildcard host, the host of its client address."""
    url: str | None = broker["admin"]
    if url is None:
        return None
    where = urllib.parse.urlsplit(url)
    if where.hostname not in WILDCARDS or not broker["endpoints"]:
        return url
    host = next(iter(broker["endpoints"].values())).rpartition(":")[0]
    return f"{where.scheme}://{host}:{where.port}"


def _ask_all(admin: dict[int, str | None]) -> dict[int, View | None]:
    def one(url: str | None) -> View | None:
        if url is None:
            return None
        try:
            return ask(url, "/cluster")
        except UserError:
            return None

    with ThreadPoolExecutor(max_workers=max(1, len(admin))) as pool:
        return dict(zip(admin, pool.map(one, admin.values()), strict=True))


def place(broker: dict[str, Any]) -> str:
    """A broker's state in the image."""
    if broker["shutting_down"]:
        return "stopping"
    return "fenced" if broker["fenced"] else "serving"


def role(view: View, broker_id: int) -> str:
    """controller, voter or observer; "-" for a broker that is not in Raft."""
    raft = view["raft"]
    if raft["leader"] == broker_id:
        return "controller"
    for name in ("voters", "observers"):
        if any(each["id"] == broker_id for each in raft[name]):
            return name.removesuffix("s")
    return "-"


def problems(found: Survey) -> list[str]:
    """The problems, one sentence each; empty for a healthy cluster."""
    best = found.best
    if not found.formed:
        return [_not_formed(id_, view) for id_, view in _known(found)]
    sentences = []
    for broker in best["brokers"]:
        id_ = broker["id"]
        view = found.views.get(id_)
        if view is None:
            sentences.append(f"broker {id_} does not answer, and is {place(broker)} in the image")
        elif view["waits_for"]:
            sentences.append(f"broker {id_} does not serve: {view['waits_for']}")
        elif view.get("storage_trouble"):  # a broker of an older version does not report it
            trouble = view["storage_trouble"]
            sentences.append(f"broker {id_} leads nothing until this is resolved: {trouble}")
        elif place(broker) != "serving":
            sentences.append(f"broker {id_} is {place(broker)}")
    sentences += _disagreements(found)
    counts = best["counts"]
    for name, words in (
        ("offline", "without a leader"),
        ("under_replicated", "with too few replicas in sync"),
    ):
        if counts[name]:
            noun = "partition" if counts[name] == 1 else "partitions"
            sentences.append(f"{counts[name]} {noun} {words}")
    return sentences


def _not_formed(id_: int, view: View) -> str:
    waits_for = view["waits_for"] or "it serves nobody"
    return f"broker {id_} is in no cluster yet: {waits_for}"


def _disagreements(found: Survey) -> list[str]:
    sentences = []
    leaders = {id_: view["raft"]["leader"] for id_, view in _known(found)}
    if set(leaders.values()) == {-1}:
        sentences.append("there is no controller: fewer than a majority of the voters are there")
    elif len(set(leaders.values())) > 1:
        named = ", ".join(f"{id_} names {leader}" for id_, leader in sorted(leaders.items()))
        sentences.append(f"brokers name different controllers: {named}")
    if len({view["cluster_id"] for _, view in _known(found)}) > 1:
        sentences.append("brokers name different clusters")
    if found.images_equal is False:
        sentences.append(f"images differ at height {found.common_height}")
    elif found.images_equal is None:
        heights = ", ".join(f"{id_} at {view['image']['height']}" for id_, view in _known(found))
        sentences.append(f"images were never seen at one height: {heights}")
    return sentences


def _known(found: Survey) -> list[tuple[int, View]]:
    return [(id_, view) for id_, view in sorted(found.views.items()) if view is not None]


def joined(ids: Iterable[int]) -> str:
    """Broker ids for a table."""
    return ",".join(map(str, ids)) or "-"
