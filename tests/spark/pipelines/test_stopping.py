"""A run that goes on until it is told to stop: between batches, with nothing lost."""

from __future__ import annotations

import json
import os
import signal
import threading
from pathlib import Path

import pytest

from pipelines.base.errors import RunError
from pipelines.sinks.delta_commits import DeltaChain
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


@pytest.mark.long_proof(share=12, among="runs of pipelines")
def test_a_stop_request_ends_a_run_between_batches_and_the_next_run_goes_on(lab):
    lab.write_file(**{"available_now: true": "every: 200ms"})
    lab.produce(20)
    stop = threading.Event()
    results = []
    thread = threading.Thread(target=lambda: results.append(lab.run(stop=stop)))
    thread.start()

    try:
        wait_until(lambda: {d.sink for d in lab.reporter.batches} == {"rows", "sums"}, 300, "rows")
        lab.produce(20)
    finally:
        stop.set()
        thread.join()

    assert results[0].interrupted
    lab.write_file()
    lab.run()
    lab.check()


def running(lab):
    """The command, after its first merge, going on."""
    lab.write_file(**{"available_now: true": "every: 200ms"})
    lab.produce(20)
    process = lab.command()
    log = lab.directory / "tables" / "sums" / "_delta_log" / f"{1:020d}.json"
    wait_until(lambda: log.exists() or process.poll() is not None, 300, "the first merge")
    assert process.poll() is None, process.communicate()[1]
    return process


def table_settings(lab, sink):
    """The properties with which the table was created."""
    first = lab.directory / "tables" / sink / "_delta_log" / f"{0:020d}.json"
    actions = map(json.loads, first.read_text().splitlines())
    (found,) = [each["metaData"]["configuration"] for each in actions if "metaData" in each]
    return found


def ctrl_c(process):
    os.kill(process.pid, signal.SIGINT)


def end_the_group(process):
    """As a terminal that closes, and a supervisor or a wrapper with a time-out: all processes of
    the group have both signals. The JVM hears neither, so the driver can end between batches."""
    os.killpg(process.pid, signal.SIGHUP)
    os.killpg(process.pid, signal.SIGTERM)


@pytest.mark.parametrize("end", [pytest.param(ctrl_c, marks=pytest.mark.slow), end_the_group])
def test_a_signal_ends_the_command_well_between_batches(lab_without_spark, end):
    lab = lab_without_spark
    process = running(lab)

    end(process)
    code, stderr = lab.finish(process)

    assert code == 0, stderr[-2000:]
    assert "Traceback" not in stderr
    assert sum(lab.arrow("sums")["records"].to_pylist()) == 20
    assert table_settings(lab, "sums")["delta.checkpointInterval"] == "100"


def kill_the_jvm(process):
    """As the kernel does that has no memory left."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    (jvm,) = (id_ for id_ in children if "java" in Path(f"/proc/{id_}/cmdline").read_text())
    os.kill(int(jvm), signal.SIGKILL)


@pytest.mark.long_proof(share=12, among="runs of pipelines")
def test_a_jvm_that_ends_under_a_run_is_one_sentence_and_the_next_run_goes_on(lab):
    process = running(lab)

    kill_the_jvm(process)
    code, stderr = lab.finish(process)

    assert code == 1
    (last,) = (line for line in stderr.splitlines() if "error" in line.lower())
    assert last.startswith("error: Spark's JVM was killed (signal 9")
    assert "Traceback" not in stderr
    lab.produce(20)
    lab.write_file()
    lab.run()
    lab.check()


@pytest.mark.long_proof(share=12, among="runs of pipelines")
def test_one_sinks_failure_does_not_stop_the_others_and_the_next_run_makes_it_good(
    lab, monkeypatch
):
    """It is begun again alone, as the file says, then the rest goes on without it: rows, dead
    letters of what it would have been the first to read, and the group that both are in."""
    group = f"group-{lab.topic}"
    lab.write_file(
        **{
            "start: earliest": f"start: earliest\n    commit_group: {group}",
            "trigger:": "restart: { attempts: 1, backoff: 1ms }\ntrigger:",
        }
    )
    lab.produce(40)
    lab.produce_raw(0, b"not json")
    lab.bad.append((0, 20))
    committed = DeltaChain._committed
    commits = []

    def fails_later(self, session, *arguments):
        if self.path != lab.table("sums"):
            return committed(self, session, *arguments)  # a scratch table's, or another sink's
        commits.append("delta-rs" if session is None else "Spark")
        if len(commits) > 1:
            raise OSError("no room")
        return committed(self, session, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(DeltaChain, "_committed", fails_later)
        with pytest.raises(RunError, match=r"^sink `sums`: no room$"):
            lab.run(rows=25)

    # Where delta-rs fails Spark tries it, and the restart does both again.
    assert commits == ["delta-rs", *["delta-rs", "Spark"] * 2]
    assert lab.reporter.restarts == [("sums", "no room (start 1 of 1 after this)")]
    ((sink, line, _),) = lab.reporter.failures
    assert (sink, line) == ("sums", "no room")
    failed = lab.checkpoint("sums").with_suffix(".sums.failed")
    assert json.loads(failed.read_text())["reason"] == "no room"
    assert lab.chain_ends("rows", "rows") == lab.topic_ends()
    assert lab.arrow("dead").num_rows == 1
    assert lab.committed(group) == lab.chain_ends("sums", "sums") != lab.topic_ends()

    lab.run(rows=25)
    lab.check()
    assert lab.committed(group) == lab.topic_ends()
    assert not failed.exists()
