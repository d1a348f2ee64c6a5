"""The processor time of a command and of all below it."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

from tests.bench import whole_runs
from tests.bench.processes import STARTED
from tests.bench.whole_runs import RESIDENT, SHARE_EACH, Tree, share_mb

TWO_OF_THE_SAME_PAGES = """
import os, sys
pages = b"x" * (64 << 20)
told, answers = os.pipe()
child = os.fork()
if child == 0:
    os.close(answers)
    os.read(told, 1)
    os._exit(0)
print(child, flush=True)
sys.stdin.read()
os.close(answers)
os.waitpid(child, 0)
"""


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


def test_a_page_that_two_processes_share_is_counted_once() -> None:
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [sys.executable, "-c", TWO_OF_THE_SAME_PAGES], stdin=pipe, stdout=pipe, text=True
    ) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        shares = [share_mb(parent.pid), share_mb(child)]
        parent.communicate("")

    # 67 MB of pages and two small processes.
    assert min(shares) > 30
    assert 67 < sum(shares) < 110
    assert share_mb(child) == 0.0


def test_shares_are_looked_at_once_in_some_looks(monkeypatch: Any) -> None:
    asked: list[int] = []
    monkeypatch.setattr(whole_runs, "stat", lambda pid: fields_of("1", 1))
    monkeypatch.setattr(whole_runs, "descendants", lambda _: [(101, fields_of("2", 1))])

    def share_of(pid: int) -> float:
        asked.append(pid)
        return 7.0

    monkeypatch.setattr(whole_runs, "share_mb", share_of)
    tree = Tree(100)

    for _ in range(2 * SHARE_EACH):
        tree.look()

    assert asked == [100, 101] * 2
    assert tree.peak_share_mb == 14.0
