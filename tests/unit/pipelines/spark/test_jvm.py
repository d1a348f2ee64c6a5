"""A JVM that has ended is one sentence; a JVM of another process is left alone."""

from __future__ import annotations

import logging
import signal
import subprocess
import sys
from types import SimpleNamespace

import pytest

from pipelines.base.errors import RunError
from pipelines.spark.jvm import (
    SparkGoneError,
    _is_not_of_py4j,
    has_gone,
    spared_signals,
    stop_session,
    stopping,
    watched,
)


class Gone(Exception):
    """Py4J's error."""


class Session:
    """A session whose JVM is this process, or another's."""

    def __init__(self, process=None):
        self.process, self.stopped = process, 0
        answer = SimpleNamespace(isStopped=self._is_stopped)
        context = SimpleNamespace(sc=lambda: answer)
        self.sparkContext = SimpleNamespace(_gateway=SimpleNamespace(proc=process), _jsc=context)

    def _is_stopped(self):
        if self.process.poll() is not None:
            raise Gone
        return False

    def stop(self):
        self.stopped += 1
        if self.process is not None and self.process.poll() is not None:
            raise Gone


@pytest.fixture
def process():
    """A process that waits."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as made:
        yield made
        made.kill()


@pytest.mark.parametrize(
    ("number", "how"),
    [
        (signal.SIGKILL, "was killed (signal 9; the kernel's log shows whether memory ran out)"),
        (signal.SIGTERM, "was terminated (signal 15)"),
    ],
)
def test_any_error_after_the_jvm_has_ended_is_one_sentence_about_it(process, number, how):
    def fail():
        process.send_signal(number)
        process.wait(60)
        raise Gone("py4j")

    with pytest.raises(SparkGoneError) as caught, watched(Session(process), "meanwhile: again"):
        fail()

    assert str(caught.value) == f"Spark's JVM {how} meanwhile: again"
    assert isinstance(caught.value, RunError)


def test_an_error_with_a_jvm_that_answers_is_that_error(process):
    session = Session(process)

    with pytest.raises(ValueError, match="mine"), watched(session, "meanwhile"):
        raise ValueError("mine")
    assert not has_gone(session)


def test_a_jvm_of_another_process_is_never_gone():
    with pytest.raises(ValueError, match="mine"), watched(Session(), "meanwhile"):
        raise ValueError("mine")
    assert not has_gone(Session())


def test_a_session_is_stopped_after_its_work_and_after_an_error(process):
    session = Session(process)

    with stopping(session) as same:
        assert same is session
    with pytest.raises(ValueError, match="mine"), stopping(session):
        raise ValueError("mine")

    assert session.stopped == 2


def test_a_session_whose_jvm_has_ended_stops_without_an_error(process):
    process.kill()
    process.wait(60)

    stop_session(Session(process))


def test_signals_that_end_a_run_are_ignored_by_a_jvm_that_starts_meanwhile():
    gateway = pytest.importorskip("pyspark.java_gateway")
    before, dying = gateway.Popen, "import os, signal; os.kill(os.getpid(), signal.SIGTERM)"

    with spared_signals():
        assert gateway.Popen([sys.executable, "-c", dying]).wait(60) == 0

    assert gateway.Popen is before
    assert before([sys.executable, "-c", dying]).wait(60) == -signal.SIGTERM


@pytest.mark.parametrize("is_connected", [False, True])
def test_a_jvm_that_an_interrupt_leaves_without_a_gateway_is_killed(
    process, monkeypatch, is_connected
):
    gateway = pytest.importorskip("pyspark.java_gateway")
    made = SimpleNamespace(proc=process) if is_connected else None
    monkeypatch.setattr("pyspark.SparkContext._gateway", made)
    monkeypatch.setattr(gateway, "Popen", lambda *_, **__: process)

    def start():
        with spared_signals():
            gateway.Popen([])
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        start()

    if is_connected:
        assert process.poll() is None
    else:
        assert process.wait(60) == -signal.SIGKILL


def test_only_py4js_own_log_lines_are_silenced():
    def line(path):
        return logging.LogRecord("root", logging.ERROR, path, 1, "closed", (), None)

    assert not _is_not_of_py4j(line("/site/py4j/clientserver.py"))
    assert _is_not_of_py4j(line("/site/own/module.py"))
