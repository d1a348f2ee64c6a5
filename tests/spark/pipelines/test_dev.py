"""`josefine pipeline dev` with a real Spark: one session, quick rounds, a clean end."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.josefine_cli.pipeline.test_dev import Dev

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

START_S = 120.0
ROUND_S = 60.0
FILE = """\
version: 1
name: tried
spark: { master: "local[1]", checkpoint: "ck" }
sources:
  orders:
    type: josefine
    bootstrap: 127.0.0.1:1
    topics: [orders]
    decode: { value: { format: json, schema: "id INT, n INT", on_error: dead_letter } }
transforms:
  sums: { inputs: [orders], sql: "select value.id, value.n + 1 as n from orders" }
sinks:
  lake: { type: delta, inputs: [sums], path: lake, mode: append }
dead_letter: { type: delta, path: dead }
trigger: { available_now: true }
tests:
  - name: one is added
    given: { orders: [{ value: { id: 7, n: 1 } }, { value: no }] }
    expect: { lake: { rows: [{ id: 7, n: 2 }] } }
"""


@pytest.fixture
def dev(tmp_path: Path) -> Iterator[Dev]:
    file = tmp_path / "f.yaml"
    file.write_text(FILE)
    process = Dev(file)
    yield process
    process.process.kill()
    process.process.wait()


def test_each_save_is_linted_tested_and_previewed_on_one_spark(dev: Dev) -> None:
    first = dev.round(1, START_S)
    dev.save(FILE.replace("+ 1", "+ 2"))
    failing = dev.round(2, ROUND_S)
    dev.save(FILE.replace("value.n + 1", "no_function(value.n)"))
    refused = dev.round(3, ROUND_S)
    dev.save(FILE)
    again = dev.round(4, ROUND_S)

    assert "ok      one is added" in first
    assert "orders (test 'one is added'):" in first
    assert "1 record not shown: not JSON" in first
    assert re.search(r"sums:\n *id +n *\n *7 +2 ", first)
    assert re.search(r'FAILED  one is added\n +line 1\d: lake: missing {"id":7,"n":2}', failing)
    assert re.search(r"sums:\n *id +n *\n *7 +3 ", failing)
    assert "unchanged: orders" in failing
    assert "1 of 1 test failed" in failing
    assert f"{dev.file}:11:" in refused
    assert "1 test passed" in again
    assert "unchanged" not in first
    assert "unchanged: orders, sums" in again
    assert dev.said.count("starting Spark") == 1
    assert dev.end(signal.SIGINT) == 0
    assert "Traceback" not in dev.said
    assert sorted(each.name for each in dev.file.parent.iterdir()) == ["f.out", "f.yaml"]
