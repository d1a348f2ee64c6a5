"""The file in which Prometheus finds how far streams are behind."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from josefine_spark.read.lag_listener import LagListener, exposition


def lag(offsets: int) -> str:
    """A source's `latestOffset` in a progress."""
    return json.dumps({"offsets": {}, "lag": {"offsetsBehindLatest": offsets}})


def progress(query: str, *latest: str | None, name: str | None = None) -> Any:
    sources = [SimpleNamespace(latestOffset=text) for text in latest]
    return SimpleNamespace(progress=SimpleNamespace(id=query, name=name, sources=sources))


def values(file: Path) -> list[str]:
    return [line for line in file.read_text().splitlines() if not line.startswith("#")]


def test_the_file_has_the_newest_figures_of_each_source_of_ours(tmp_path: Path) -> None:
    file = tmp_path / "lag.prom"
    listener = LagListener(file)

    listener.onQueryProgress(progress("q1", lag(7), "5", lag(1)))
    listener.onQueryProgress(progress("q1", lag(3), "5", lag(0)))
    listener.onQueryProgress(progress("q2", lag(9), name="orders"))

    assert values(file) == [
        'josefine_source_offsets_behind{query="orders",source="0"} 9',
        'josefine_source_offsets_behind{query="q1",source="0"} 3',
        'josefine_source_offsets_behind{query="q1",source="2"} 0',
    ]
    assert [path.name for path in tmp_path.iterdir()] == ["lag.prom"]


def test_a_query_that_ends_leaves_the_file(tmp_path: Path) -> None:
    file = tmp_path / "lag.prom"
    listener = LagListener(file)
    started: Any = SimpleNamespace(id="q2", name="orders")
    ended: Any = SimpleNamespace(id="q2")

    listener.onQueryStarted(started)
    listener.onQueryProgress(progress("q1", lag(3)))
    listener.onQueryProgress(progress("q2", lag(9), name="orders"))
    listener.onQueryTerminated(ended)

    assert values(file) == ['josefine_source_offsets_behind{query="q1",source="0"} 3']


def test_a_folder_that_is_not_there_is_said_before_a_query_starts(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no/lag\.prom: there is no folder"):
        LagListener(tmp_path / "no" / "lag.prom")


def test_names_are_escaped_as_prometheus_wants_it() -> None:
    lines = list(exposition({('a"b\\c\nd', 0): {"secondsBehindLatest": 1.5}}))

    assert [line for line in lines if not line.startswith("#")] == [
        'josefine_source_seconds_behind{query="a\\"b\\\\c\\nd",source="0"} 1.5'
    ]
    assert "# TYPE josefine_source_seconds_behind gauge" in lines
