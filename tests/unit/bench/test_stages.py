"""The table of a request's stages: what is named, counted and refused."""

from __future__ import annotations

import importlib
import threading

import pytest

from tests.bench import stages
from tests.bench.request_load import KINDS
from tests.bench.staged_broker import REST, STAGES, Stopwatch


def test_every_stage_names_a_function_of_this_checkout() -> None:
    for _, module_name, path in STAGES:
        found: object = importlib.import_module(module_name)
        for name in path.split("."):
            found = getattr(found, name, None)
        # `routes` binds what it serves requests with; the compiled modules may be missing.
        assert found is not None or "native" in module_name, (module_name, path)


def test_a_restarted_stopwatch_counts_nothing_of_before() -> None:
    watch = Stopwatch()
    timed = watch.timed("work", lambda: sum(range(1_000)))
    timed()
    assert watch.entered["work"] == 1

    watch.restart()

    assert set(watch.entered.values()) == set(watch.left.values()) == {0}
    assert watch.spent_ns["work"] == 0
    timed()
    assert watch.entered["work"] == 1


def test_another_thread_is_not_counted() -> None:
    watch = Stopwatch()
    timed = watch.timed("work", lambda: sum(range(1_000)))

    thread = threading.Thread(target=timed)
    thread.start()
    thread.join()

    assert (watch.entered["work"], watch.spent_ns["work"]) == (0, 0)


def test_the_rest_is_what_no_stage_accounts_for() -> None:
    lines = list(stages.report(10.0, {"parse": 2.0, "write": 3.0}, "commit"))

    assert [(line["measure"], line["josefine"]) for line in lines] == [
        ("commit, stage: parse", 2.0), ("commit, stage: write", 3.0),
        (f"commit, stage: {REST}", 5.0), ("commit, stage: total", 10.0),
    ]  # fmt: skip


def test_an_unknown_kind_of_request_is_refused_with_the_known_ones() -> None:
    assert set(KINDS) == set(stages.KINDS) - {stages.PRODUCE, stages.REPLICATE}
    with pytest.raises(SystemExit, match="unknown kind of request 'fetsh'; name some of produce"):
        stages.main(["fetch", "fetsh"])
