"""Every metric that is exported, documented, alerted on or drawn is in the one table."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import yaml

from conf.grafana_board import board
from josefine_broker.host.metric_table import METRICS, SECTIONS, Kind
from josefine_lake.report.metric_table import METRICS as OF_TABLES
from pipelines.report.metric_table import METRICS as OF_PIPELINES

ROOT = Path(__file__).resolve().parents[4]
ALERTS = ROOT / "conf/prometheus/alerts.yaml"
BOARD = ROOT / "conf/grafana/josefine.json"
USED = re.compile(r"\bjosefine_\w+")
OF_A_HISTOGRAM = ("_bucket", "_sum", "_count")


def exported() -> set[str]:
    names = set()
    for metric in (*METRICS.values(), *OF_PIPELINES.values(), *chain(*OF_TABLES.values())):
        endings = OF_A_HISTOGRAM if metric.kind is Kind.HISTOGRAM else ("",)
        names |= {f"{metric.exported}{ending}" for ending in endings}
    return names


def alerts() -> list[dict[str, Any]]:
    groups = yaml.safe_load(ALERTS.read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def panels() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(BOARD.read_text())["panels"]
    return found


def test_name_stands_once_in_the_table() -> None:
    assert len(METRICS) == sum(map(len, SECTIONS.values()))


def test_alert_rules_name_metrics_that_there_are() -> None:
    used = {name for rule in alerts() for name in USED.findall(rule["expr"])}

    assert used
    assert used <= exported()


def test_alert_says_what_is_wrong_and_what_to_do() -> None:
    for rule in alerts():
        assert rule["labels"]["severity"] in ("page", "ticket"), rule["alert"]
        assert {"summary", "description"} <= set(rule["annotations"]), rule["alert"]


def test_panels_name_metrics_that_there_are() -> None:
    targets = [target["expr"] for panel in panels() for target in panel.get("targets", ())]
    used = {name for expression in targets for name in USED.findall(expression)}

    assert used
    assert used <= exported()


def test_panels_do_not_overlap() -> None:
    cells = [
        (x, y)
        for panel in panels()
        for grid in [panel["gridPos"]]
        for x in range(grid["x"], grid["x"] + grid["w"])
        for y in range(grid["y"], grid["y"] + grid["h"])
    ]

    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24
    assert len({panel["id"] for panel in panels()}) == len(panels())


def test_board_is_the_generated_one() -> None:
    assert board() == BOARD.read_text()


@pytest.mark.skipif(shutil.which("promtool") is None, reason="no promtool on this machine")
def test_promtool_takes_the_alert_rules() -> None:
    done = subprocess.run(
        ["promtool", "check", "rules", str(ALERTS)],
        capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stdout + done.stderr
