"""The processor time of a command and of all below it."""

from __future__ import annotations

from typing import Any

from tests.bench import whole_runs
from tests.bench.processes import STARTED
from tests.bench.whole_runs import RESIDENT, Tree


def fields_of(started: str, pages: int) -> list[str]:
    fields = ["0"] * 40
    fields[STARTED], fields[RESIDENT] = started, str(pages)
    return fields


def test_a_stranger_with_the_number_of_an_ended_process_is_not_counted(monkeypatch: Any) -> None:
    root, child, stranger = fields_of("1", 1), fields_of("2", 1), fields_of("9", 10**9)
    processes = {100: root, 101: child}
    monkeypatch.setattr(whole_runs, "stat", lambda pid: processes.get(pid, []))
    below = {101: child}
    monkeypatch.setattr(whole_runs, "descendants", lambda _: [*below.items()])
    tree = Tree(100)

    tree.look()
    below.clear()
    tree.look()
    orphaned_mb = tree.peak_mb
    processes[101] = stranger
    tree.look()

    assert tree.seconds.keys() == {(100, "1"), (101, "2")}
    assert tree.peak_mb == orphaned_mb > 0
