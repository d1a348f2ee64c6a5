"""`josefine demo`: the main job from end to end on real data, with a check of the result.

One broker in a process of its own, 336,776 real events from a third-party Kafka producer, the
pipeline conf/pipelines/flights.yaml into two Delta tables, then a comparison of the tables with the
input. All files are below one directory with a marker file; no process is left running.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import typer
from rich.console import Console

from josefine_cli.base.errors import UserError
from josefine_cli.base.extras import DEMO, need
from josefine_cli.base.waiting import waits
from josefine_cli.dev import demo_check, demo_flights, demo_produce
from josefine_cli.dev.demo_lake import LOCAL, Lake, check_lake, opened, with_conf

CONF = Path(__file__).parents[1] / "conf"
"""The files of conf/: in the source tree by a link, in an installed package by themselves."""
PIPELINE = CONF / "pipelines" / "flights.yaml"
BROKER_CONFIG = CONF / "broker.yaml"
MARKER = ".josefine-demo"
TOPIC = "flights"
PARTITIONS = 4
BROKER_START_SECONDS = 60.0
BROKER_STOP_SECONDS = 30.0

app = typer.Typer(
    help="Run the main job on real data: flights, a broker, a pipeline, two tables.",
    add_completion=False,
    rich_markup_mode=None,
)
err = Console(stderr=True, highlight=False)


@app.callback(invoke_without_command=True)
def demo(
    keep: bool = typer.Option(
        False,
        "--keep",
        help="Continue with the last run's topic and tables: publish the year again",
    ),
    directory: Path = typer.Option(
        Path(".demo"), "--dir", help="Where the broker's data, checkpoints and tables go."
    ),
    lake: str = typer.Option(
        LOCAL,
        "--lake",
        metavar="local|s3|s3a://BUCKET/FOLDER",
        help="Where tables and checkpoints go; s3 starts a server of S3 for the demo.",
    ),
    as_json: bool = typer.Option(False, "--json", help="Print the outcome as one JSON object."),
) -> None:
    """Publish 336,776 flights, run the pipeline, check both Delta tables against the input."""
    need("the demo", *DEMO)
    check_lake(lake, keep=keep)
    signal.signal(signal.SIGTERM, _terminate)
    directory = directory.resolve()
    # The server of a lake in S3 must serve the tables until they are shown.
    with _claimed(directory, keep), opened(lake, directory, time.time()) as place:
        outcome = _run(directory, place)
        if as_json:
            print(json.dumps(outcome.as_dict()))
        else:
            demo_check.print_outcome(Console(highlight=False), outcome, place)
    if not outcome.ok:
        raise typer.Exit(1)


def _run(directory: Path, lake: Lake) -> demo_check.Outcome:
    lake.look()  # before the year is published
    before = demo_check.read_tables(lake)
    with _broker(directory) as bootstrap:
        _create_topic(bootstrap)
        produced = demo_produce.publish(bootstrap, TOPIC, demo_flights.data_set(), err)
        pipeline = _run_pipeline(directory, bootstrap, lake)
        topic_ends = demo_produce.end_offsets(bootstrap, TOPIC)
    return demo_check.compare(
        before=before,
        after=demo_check.read_tables(lake),
        produced=produced,
        topic_ends=topic_ends,
        pipeline=pipeline,
    )


def _terminate(signum: int, frame: object) -> None:
    raise SystemExit(128 + signum)


@contextlib.contextmanager
def _claimed(directory: Path, keep: bool) -> Iterator[None]:
    """Lock the demo's directory against a second demo; empty it unless `keep`.

    Only a directory with our marker file is ever emptied.
    """
    marker = directory / MARKER
    if directory.exists() and any(directory.iterdir()) and not marker.exists():
        raise UserError(
            f"{directory} has files that are not the demo's; name another directory with --dir"
        )
    directory.mkdir(parents=True, exist_ok=True)
    with marker.open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(f"another demo is running in {directory}") from None
        if not keep:
            for entry in directory.iterdir():
                if entry.name != MARKER:
                    shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
        yield


@contextlib.contextmanager
def _broker(directory: Path) -> Iterator[str]:
    """A broker in a process of its own; yields its bootstrap address and stops it in every case."""
    data_dir = directory / "broker"
    addresses = data_dir / "broker.addresses.json"
    addresses.unlink(missing_ok=True)
    log_path = directory / "broker.log"
    command = [sys.executable, "-m", "josefine_cli.main", "broker", "--config", str(BROKER_CONFIG)]
    command += ["--data-dir", str(data_dir), "--listen", "127.0.0.1:0"]
    environment = {**os.environ, "JOSEFINE__ADMIN__ADDRESS": "127.0.0.1:0"}
    with log_path.open("ab") as log:
        process = subprocess.Popen(
            command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=environment,
            preexec_fn=_die_with_parent,
        )  # fmt: skip
    try:
        bootstrap = _wait_for_broker(process, addresses, log_path)
        err.print(f"broker      pid {process.pid}, {bootstrap}, log in {log_path}")
        yield bootstrap
    finally:
        process.terminate()
        try:
            process.wait(BROKER_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _die_with_parent() -> None:
    """In the child: let Linux send SIGTERM when the demo is killed, so that no process is left."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(1, signal.SIGTERM)


def _wait_for_broker(process: subprocess.Popen[bytes], addresses: Path, log_path: Path) -> str:
    deadline = time.monotonic() + BROKER_START_SECONDS
    with waits(lambda: f"the broker to serve (its log is {log_path})"):
        while time.monotonic() < deadline:
            if process.poll() is not None:
                last = log_path.read_text(errors="replace").strip().splitlines()[-1:]
                raise UserError(f"the broker did not start: {' '.join(last)}")
            if addresses.exists():
                return _bootstrap_of(json.loads(addresses.read_text()))
            time.sleep(0.05)
    raise UserError(f"the broker was not ready in {BROKER_START_SECONDS:.0f} s; see {log_path}")


def _bootstrap_of(addresses: dict[str, Any]) -> str:
    return str(next(iter(addresses["listeners"].values())))


def _create_topic(bootstrap: str) -> None:
    command = [sys.executable, "-m", "josefine_cli.main", "topics", "create", TOPIC]
    command += ["--partitions", str(PARTITIONS), "--if-not-exists", "--bootstrap", bootstrap]
    with waits(lambda: f"topic '{TOPIC}' to be created at {bootstrap}"):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise UserError(f"could not create the topic: {done.stderr.strip()}")


def _pipeline_file(directory: Path, lake: Lake) -> Path:
    """conf/pipelines/flights.yaml, or a copy in the demo's directory with a store's settings."""
    if lake.is_local:
        return PIPELINE
    file = directory / PIPELINE.name
    file.write_text(with_conf(PIPELINE.read_text(), lake.conf))
    shutil.copy(PIPELINE.with_suffix(".ddl"), directory)
    return file


def _run_pipeline(directory: Path, bootstrap: str, lake: Lake) -> dict[str, Any]:
    """Run the pipeline file as a user would; its progress goes to our stderr."""
    environment = {**os.environ, **lake.env, "BOOTSTRAP": bootstrap, "DEMO_DIR": lake.root}
    command = [
        sys.executable,
        "-m",
        "josefine_cli.main",
        "pipeline",
        "run",
        str(_pipeline_file(directory, lake)),
        "--json",
    ]
    spark_log: IO[bytes] | None = None
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=spark_log, stdin=subprocess.DEVNULL,
        env=environment, cwd=directory, preexec_fn=_die_with_parent,
    )  # fmt: skip
    try:
        stdout, _ = process.communicate()
    except BaseException:
        process.terminate()
        process.wait(BROKER_STOP_SECONDS)
        raise
    if process.returncode != 0:
        raise UserError(
            f"the pipeline ended with exit code {process.returncode}; its output is above"
        )
    return dict(json.loads(stdout.decode().strip().splitlines()[-1]))
