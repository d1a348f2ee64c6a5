"""`/metrics` and `/health` of a real table writer: healthy and stopped tables, a wrong address."""

import json
import re
import subprocess
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from tests.integration.test_table_topics import made, sent
from tests.support.cli import COMMAND, environment, josefine
from tests.support.fixtures import broker_fixture
from tests.support.processes import ChildProcess
from tests.support.waiting import wait_until

broker = broker_fixture(group__initial_rebalance_delay_ms=0, group__min_session_timeout_ms=500)


def test_metrics_and_health_show_rows_lag_and_the_table_that_stopped(
    broker: Any, tmp_path: Path
) -> None:
    how = {"format": "json", "schema": "id INT", "target__lag__ms": "100"}
    made(broker, "well", location=str(tmp_path / "well"), **how)
    made(broker, "ill", location=str(tmp_path / "ill"), dead__letter="fail", **how)
    words = [*COMMAND, "tables", "run", "--topic", "well", "--topic", "ill"]
    writer = ChildProcess(words, env=environment(broker.bootstrap), stderr=subprocess.PIPE)
    try:
        assert writer.stderr is not None
        found = re.search(r"http://(127\.0\.0\.1:\d+)/health", writer.stderr.readline())
        assert found is not None
        at = found[1]
        sent(broker, "well", [{"id": 1}, b"not json", {"id": 2}])
        sent(broker, "ill", [{"id": 1}, b"poison"])

        wait_until(
            lambda: (
                metric(at, "table_rows_total", "well") == 2
                and metric(at, "table_lag_seconds", "well") == 0
                and metric(at, "table_stopped", "ill") == 1
            ),
            60,
            what="the rows of one table and the stop of the other one",
        )
        page = metrics(at)
        code, body = health(at)
        stopped_lag = metric(at, "table_lag_seconds", "ill") or 0
        wait_until(
            lambda: (metric(at, "table_lag_seconds", "ill") or 0) > stopped_lag,
            30,
            what="the growing lag of the stopped table",
        )
        assert get(at, "/health/ready")[0] == 200
        assert get(at, "/health/live") == (200, "ok\n")
    finally:
        writer.kill()
        writer.communicate()

    lake = DeltaTable(str(tmp_path / "well"))
    sizes = lake.get_add_actions(flatten=True)["size_bytes"]
    files = [each.as_py() for each in sizes]
    assert page['josefine_table_dead_letters_total{topic="well"}'] == 1
    assert page['josefine_table_files{topic="well"}'] == len(files)
    assert page['josefine_table_size_bytes{topic="well"}'] == sum(files)
    assert page['josefine_table_bytes_total{topic="well"}'] == sum(files)
    assert page['josefine_table_commits_total{topic="well"}'] >= 1
    assert page['josefine_table_lag_records{topic="ill"}'] == 2
    assert page["josefine_table_process_cpu_seconds_total"] > 0
    assert (code, body["status"]) == (503, "failing")
    assert body["checks"]["tables"]["detail"] == "ill stopped"
    assert "ill-0 offset 1: not JSON" in body["tables"]["ill"]["problem"]
    assert body["tables"]["well"] == {"state": "writing", "problem": ""}


def test_an_address_that_cannot_be_listened_on_ends_the_writer_with_the_reason(
    broker: Any,
) -> None:
    taken = broker.bootstrap
    used = josefine(taken, "tables", "run", "--admin", taken)
    wrong = josefine(taken, "tables", "run", "--admin", "here")

    assert (used.code, wrong.code) == (1, 2)
    assert f"--admin {taken} cannot be listened on: Address already in use" in used.err
    assert "--admin here: must be host:port" in wrong.err


def metrics(at: str) -> dict[str, float]:
    text = get(at, "/metrics")[1]
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def metric(at: str, name: str, topic: str) -> float | None:
    return metrics(at).get(f'josefine_{name}{{topic="{topic}"}}')


def health(at: str) -> tuple[int, dict[str, Any]]:
    code, text = get(at, "/health")
    return code, dict(json.loads(text))


def get(at: str, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://{at}{path}", timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()
