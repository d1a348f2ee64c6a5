"""`josefine log verify|repair` against a running broker, over its admin address."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from josefine_cli.base.admin import ask
from josefine_cli.base.output import plural, print_json
from josefine_cli.base.waiting import waits

PAUSE_S = 0.2


def verify_running(
    admin: str, topic: str | None, sleep: Callable[[float], None] = time.sleep
) -> dict[str, Any]:
    """Have the broker read its logs, and return what it has found. Raises UserError."""
    url = admin if "://" in admin else f"http://{admin}"
    query = "" if topic is None else f"?topic={quote(topic)}"
    total = ask(url, f"/logs/verify{query}", acts=True)["partitions"]
    view = ask(url, "/logs")
    with waits(lambda: f"{view['verify_left']} of {plural(total, 'partition')} to be read"):
        while view["verify_left"]:
            sleep(PAUSE_S)
            view = ask(url, "/logs")
    return view


def repair_running(
    admin: str,
    partition: str | None,
    *,
    accepts_loss: bool,
    sleep: Callable[[float], None] = time.sleep,
) -> dict[str, Any]:
    """Verify, and wait until what can be repaired is; with `accepts_loss` give up the rest of
    `partition`. Raises UserError."""
    url = admin if "://" in admin else f"http://{admin}"
    topic = None if partition is None else partition.rpartition("-")[0]
    view = _settled(url, verify_running(url, topic, sleep), sleep)
    if accepts_loss:
        ask(url, f"/logs/accept-loss?partition={quote(partition or '')}", acts=True)
        view = _settled(url, ask(url, "/logs"), sleep, has_given_up=partition)
    return view


def _settled(
    url: str,
    view: dict[str, Any],
    sleep: Callable[[float], None],
    *,
    has_given_up: str | None = None,
) -> dict[str, Any]:
    """The view once every damaged segment is repaired, or has lost records."""

    def is_open(each: dict[str, Any]) -> bool:
        return each["lost"] is None or each["partition"] == has_given_up

    with waits(lambda: f"{plural(len(view['damaged']), 'damaged segment')} to be repaired"):
        while any(is_open(each) for each in view["damaged"]):
            sleep(PAUSE_S)
            view = ask(url, "/logs")
    return view


def show(view: dict[str, Any], *, as_json: bool) -> None:
    """Print what a broker knows of its logs."""
    if as_json:
        print_json(view)
        return
    damaged = view["damaged"]
    verdict = plural(len(damaged), "damaged segment") if damaged else "no damage"
    repaired = plural(view["repaired"], "segment")
    print(f"broker {view['broker_id']}: {verdict}; {repaired} repaired since its start")
    for each in damaged:
        lost = "" if each["lost"] is None else f"; offsets {each['lost'][0]} to {each['lost'][1]}"
        lost += " are on no replica" if lost else ""
        where = f"{each['partition']} segment {each['segment']} from offset {each['offset']}"
        print(f"  {where}: {each['reason']}; {each['state']}{lost}")
