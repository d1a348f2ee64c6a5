"""`josefine cluster verify` and `josefine log verify|repair` against scripted brokers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from josefine_cli.base import admin
from josefine_cli.base.errors import UsageError, UserError
from josefine_cli.broker import log, log_running
from josefine_cli.cluster import verify, view

Answer = Callable[[str, dict[str, str]], dict[str, Any]]


def script(monkeypatch: pytest.MonkeyPatch, brokers: dict[str, Answer]) -> list[tuple[str, bool]]:
    """Brokers by URL; the requests they get, and whether each is an action."""
    asked: list[tuple[str, bool]] = []

    def ask(url: str, path: str, *, acts: bool = False) -> dict[str, Any]:
        asked.append((path, acts))
        if url not in brokers:
            raise UserError(f"no broker answers at {url}")
        parts = urlsplit(path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        return brokers[url](parts.path, query)

    for module in (admin, log_running, verify, view):
        monkeypatch.setattr(module, "ask", ask)
    return asked


def replica(start: int, end: int, crcs: dict[int, int | None]) -> Answer:
    def answer(path: str, query: dict[str, str]) -> dict[str, Any]:
        if path == "/cluster":
            brokers = [{"id": id_, "admin": f"http://b{id_}", "endpoints": {}} for id_ in (1, 2)]
            partitions = [{"topic": "orders", "partition": 0, "replicas": [1, 2]}]
            return {"brokers": brokers, "partitions": partitions}
        first, last = int(query["start"]), int(query["end"])
        ranges = [[at, at + 10, crc] for at, crc in crcs.items() if first <= at < last][:1]
        following = ranges[0][1] if ranges and ranges[0][1] < last else None  # type: ignore[operator]
        return {"log_start": start, "high_watermark": end, "ranges": ranges, "next": following}

    return answer


def test_replicas_are_compared_range_by_range(monkeypatch: pytest.MonkeyPatch) -> None:
    brokers = {
        "http://b1": replica(0, 30, {0: 1, 10: 2, 20: 3}),
        "http://b2": replica(10, 40, {10: 2, 20: 4, 30: 5}),
    }
    script(monkeypatch, brokers)

    (result,) = verify.compare_all(["http://b1"], None)

    assert (result.offsets, result.replicas) == (20, 2)
    (difference,) = result.differences
    assert (difference.start, difference.end, difference.checksums) == (20, 30, {1: 3, 2: 4})


def test_damaged_range_is_a_difference_even_if_no_replica_has_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    script(
        monkeypatch,
        {"http://b1": replica(0, 10, {0: None}), "http://b2": replica(0, 10, {0: None})},
    )

    (result,) = verify.compare_all(["http://b1"], "orders")

    assert len(result.differences) == 1


def test_broker_that_does_not_answer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    script(monkeypatch, {"http://b1": replica(0, 10, {0: 1})})

    (result,) = verify.compare_all(["http://b1"], None)

    assert (result.unreachable, result.differences) == ((2,), ())
    with pytest.raises(UserError, match="no topic 'bills'"):
        verify.compare_all(["http://b1"], "bills")


def damaged(lost: list[int] | None) -> list[dict[str, Any]]:
    fields = {"partition": "orders-0", "segment": 0, "offset": 3, "reason": "CRC", "state": "lost"}
    return [{**fields, "lost": lost}]


def test_repair_of_a_topic_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match=r"'orders' is not a partition: .* as in orders-0"):
        log.repair("orders", "b1", accept_loss=False, as_json=False)


def test_repair_waits_until_damage_is_repaired_and_gives_up_only_when_asked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    views = iter([(2, []), (0, damaged(None)), (0, damaged([3, 5])), (0, damaged([3, 5])), (0, [])])

    def answer(path: str, query: dict[str, str]) -> dict[str, Any]:
        if path == "/logs":
            left, found = next(views)
            return {"broker_id": 1, "verify_left": left, "damaged": found, "repaired": 1}
        return {"partitions": 2, "given_up": [[3, 5]]}

    asked = script(monkeypatch, {"http://b1": answer})

    view = log_running.repair_running(
        "b1", "orders-0", accepts_loss=True, sleep=lambda seconds: None
    )
    log_running.show(view, as_json=False)

    assert [path for path, acts in asked if acts] == [
        "/logs/verify?topic=orders",
        "/logs/accept-loss?partition=orders-0",
    ]
    assert capsys.readouterr().out == "broker 1: no damage; 1 segment repaired since its start\n"
    log_running.show({**view, "damaged": damaged([3, 5])}, as_json=False)
    assert "offsets 3 to 5 are on no replica" in capsys.readouterr().out
