"""`groups top`, `pipeline top` and `pipeline status --watch` at a real broker."""

from __future__ import annotations

import json
from pathlib import Path

from josefine_cli.base.errors import EXIT_FAILURE
from tests.support.broker import BrokerProcess
from tests.support.cli import josefine
from tests.unit.pipelines.config.test_validate import GOOD

TWO = ("--looks", "2", "--every", "0.1", "--json")


def test_groups_and_sinks_are_shown_by_their_lag(broker: BrokerProcess, tmp_path: Path) -> None:
    where, file = broker.bootstrap, tmp_path / "f.yaml"
    text = GOOD.replace("localhost:9092", where).replace("/ck", f"{tmp_path}/ck")
    file.write_text(text.replace("/lake", f"{tmp_path}/lake"))
    assert josefine(where, "topics", "create", "orders").code == 0
    josefine(where, "produce", "orders", stdin="a\nb\nc\n")
    for group, count in (("slow", "1"), ("quick", "3")):
        josefine(where, "consume", "orders", "--group", group, "-n", count)

    groups = josefine(where, "groups", "top", *TWO)
    one = josefine(where, "groups", "top", "slow", "--looks", "1")
    unknown = josefine(where, "groups", "top", "slo", "--looks", "1")
    sinks = josefine(where, "pipeline", "top", str(file), *TWO)
    status = josefine(where, "pipeline", "status", str(file), "--watch", *TWO)

    first, second = map(json.loads, groups.out.splitlines())
    assert [(each["name"], each["read"], each["lag"]) for each in first] == [
        ("slow", 1, 2),
        ("quick", 3, 0),
    ]
    assert [each["per_second"] for each in second] == [0.0, 0.0]
    assert one.out.splitlines()[1].split()[:1] == ["slow"]
    assert (unknown.code, unknown.err) == (
        EXIT_FAILURE,
        "error: group 'slo' does not exist: did you mean 'slow'?\n",
    )
    (sink,) = json.loads(sinks.out.splitlines()[1])
    assert (sink["name"].split(".")[1], sink["read"], sink["lag"]) == ("lake", 0, 3)
    assert len(status.out.splitlines()) == 2
    assert (groups.err, sinks.err, status.err) == ("", "", "")
