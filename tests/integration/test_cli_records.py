"""`josefine produce` and `josefine consume` against a real broker."""

from __future__ import annotations

import fcntl
import itertools
import json
import select
import shlex
import signal
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.broker import BrokerProcess
from tests.support.cli import COMMAND, environment, josefine, josefine_process
from tests.support.waiting import wait_until

_NUMBERS = itertools.count(1)
Topics = Callable[[int], str]


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    # Timestamps here are of 1970: retention by time, each five minutes, would delete the records.
    directory = Path(tmp_path_factory.mktemp("cli-records"))
    with BrokerProcess(directory, log__retention_ms=None) as process:
        yield process.bootstrap


@pytest.fixture
def make_topic(bootstrap: str) -> Topics:
    def make(partitions: int = 1) -> str:
        name = f"records-{next(_NUMBERS)}"
        assert josefine(bootstrap, "topics", "create", name, "-p", str(partitions)).code == 0
        return name

    return make


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_lines_come_back_byte_for_byte(
    bootstrap: str, make_topic: Topics, compression: str
) -> None:
    """Checklist row 92."""
    topic = make_topic(1)
    lines = b"".join(b"%d \xff\x00\t tail\n" % n for n in range(3_000)) + b"\nlast without newline"

    produced = josefine(bootstrap, "produce", topic, "-z", compression, stdin=lines)
    consumed = josefine(bootstrap, "consume", topic)

    assert produced.out == (
        f"wrote 3,002 records to {topic}\n  partition 0: 3,002 records, offsets 0 to 3001\n"
    )
    assert consumed.out.encode("utf-8", "surrogateescape") == lines + b"\n"


def test_keys_choose_partitions_and_stay_in_order(bootstrap: str, make_topic: Topics) -> None:
    topic = make_topic(4)
    lines = [f"key{n % 7}:{n}" for n in range(500)]

    produced = josefine(
        bootstrap, "produce", topic, "-k", ":", "--json", stdin="\n".join(lines) + "\n"
    )
    consumed = josefine(bootstrap, "consume", topic, "--format", "key-value")

    assert json.loads(produced.out)["records"] == 500
    by_key: dict[str, list[int]] = {}
    for line in consumed.out.splitlines():
        key, value = line.split("\t")
        by_key.setdefault(key, []).append(int(value))
    assert by_key == {f"key{k}": list(range(k, 500, 7)) for k in range(7)}


def test_json_lines_carry_everything_there_and_back(bootstrap: str, make_topic: Topics) -> None:
    source, target = make_topic(2), make_topic(2)
    records = [
        {"key": "k", "value": {"n": 1}, "headers": {"h": "v"}, "partition": 1, "timestamp_ms": 5},
        {"key": None, "value": None, "partition": 0, "timestamp_ms": 6},
        {"value_base64": "//4A", "partition": 0, "timestamp_ms": 7},
    ]
    lines = "".join(json.dumps(record) + "\n" for record in records)

    josefine(bootstrap, "produce", source, "--format", "json", stdin=lines)
    first = josefine(bootstrap, "consume", source, "--json").out
    copied = josefine(bootstrap, "produce", target, "--format", "json", stdin=first)
    second = josefine(bootstrap, "consume", target, "--json").out

    assert copied.code == 0, copied.err
    assert second == first.replace(f'"{source}"', f'"{target}"')
    assert [json.loads(line)["timestamp_ms"] for line in first.splitlines()] == [6, 7, 5]


def test_a_bad_line_is_named_and_what_came_before_is_written(
    bootstrap: str, make_topic: Topics
) -> None:
    topic = make_topic(1)

    done = josefine(bootstrap, "produce", topic, "-k", ":", stdin="a:1\nb:2\nbroken\nc:3\n")
    consumed = josefine(bootstrap, "consume", topic)

    assert done.code == 1
    assert done.err == "error: line 3: no key separator ':' (2 records written before it)\n"
    assert consumed.out == "1\n2\n"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--from", "7"), range(7, 10)),
        (("--from", "-3"), range(7, 10)),
        (("--from", "2", "--to", "5"), range(2, 5)),
        (("--to", "-8"), range(2)),
        (("--from", "latest"), range(0)),
        (("--max", "4"), range(4)),
        (("--from", "1970-01-01T00:00:03Z", "--to", "1970-01-01T00:00:06Z"), range(3, 6)),
        (("--from", "1970-01-01T00:00:03.500Z"), range(4, 10)),
        (("--from", "-1h"), range(0)),
    ],
)
def test_ranges_are_offsets_and_times_with_an_exclusive_end(
    bootstrap: str, ten_seconds: str, options: tuple[str, ...], expected: range
) -> None:
    done = josefine(bootstrap, "consume", ten_seconds, *options)

    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines() == [str(n) for n in expected]


@pytest.fixture(scope="module")
def ten_seconds(bootstrap: str) -> str:
    """Ten records, one per second from the epoch on, in batches of one."""
    josefine(bootstrap, "topics", "create", "ten-seconds", "-p", "1")
    for n in range(0, 10, 5):
        lines = (f'{{"value": "{m}", "timestamp_ms": {m * 1000}}}\n' for m in range(n, n + 5))
        josefine(bootstrap, "produce", "ten-seconds", "-f", "json", stdin="".join(lines))
    return "ten-seconds"


def test_what_cannot_be_read_or_written_is_one_sentence(bootstrap: str, ten_seconds: str) -> None:
    """Checklist row 92."""
    cases = {
        ("consume", "absent"): "topic 'absent' does not exist",
        ("produce", "absent"): "topic 'absent' does not exist",
        ("consume", ten_seconds, "-p", "4"): "topic 'ten-seconds' has no partition 4: it has 1",
        ("produce", ten_seconds, "-p", "4"): "topic 'ten-seconds' has no partition 4: it has 1",
        ("consume", ten_seconds, "--from", "99"): "partition 0 of 'ten-seconds' ends at offset 10",
        ("produce", ten_seconds, "/no/such/file"): "/no/such/file: no such file or directory",
    }

    for arguments, sentence in cases.items():
        done = josefine(bootstrap, *arguments, stdin="x\n")
        assert (done.code, done.out) == (1, ""), (arguments, done)
        assert done.err.startswith(f"error: {sentence}"), done.err
        assert done.err.count("\n") == 1, done.err


def test_a_reader_that_goes_away_is_no_error_worth_a_word(
    bootstrap: str, make_topic: Topics
) -> None:
    topic = make_topic(1)
    lines = "".join(f"{n:0100d}\n" for n in range(20_000))
    josefine(bootstrap, "produce", topic, stdin=lines)

    process = josefine_process(bootstrap, "consume", topic)
    assert process.stdout is not None
    assert process.stderr is not None
    first = process.stdout.readline()
    process.stdout.close()
    complaint = process.stderr.read()
    process.wait(90)
    process.stderr.close()

    assert int(first) == 0
    assert complaint == ""


def test_ctrl_c_ends_a_command_whose_reader_takes_nothing_more(
    bootstrap: str, make_topic: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)  # nothing is left to flush with it
    topic = make_topic(1)
    josefine(bootstrap, "produce", topic, stdin=f"{'x' * 99}\n" * 20_000)

    process = josefine_process(bootstrap, "consume", topic)
    wait_until(lambda: is_full(process), 90, "a full pipe")
    process.send_signal(signal.SIGINT)

    assert process.wait(90) == 130
    assert process.stderr is not None
    assert process.stderr.read() == ""


def is_full(process: subprocess.Popen[str]) -> bool:
    """Whether its stdout takes nothing more."""
    with open(f"/proc/{process.pid}/fd/1", "wb", buffering=0) as end:
        return not select.select([], [end], [], 0)[1]


def test_following_shows_new_records_until_interrupted(bootstrap: str, make_topic: Topics) -> None:
    topic = make_topic(2)
    process = josefine_process(bootstrap, "consume", topic, "--follow", "--format", "full")
    assert process.stdout is not None

    josefine(bootstrap, "produce", topic, "-p", "1", "-H", "h=1", stdin="hello\x1b\n")
    line = process.stdout.readline()
    process.send_signal(signal.SIGINT)
    _, complaint = process.communicate(timeout=90)

    assert line.startswith("1:0 20")
    assert line.endswith(" key=null h=1 hello\\x1b\n")
    assert (process.returncode, complaint) == (0, "")


def test_lines_of_a_slow_pipe_are_written_while_it_is_open(
    bootstrap: str, make_topic: Topics
) -> None:
    topic = make_topic(1)
    process = josefine_process(bootstrap, "produce", topic)
    assert process.stdin is not None

    process.stdin.write("early\n")
    process.stdin.flush()
    wait_until(lambda: josefine(bootstrap, "consume", topic).out == "early\n", 90, "the first line")
    process.send_signal(signal.SIGINT)
    out, complaint = process.communicate(timeout=90)

    assert out.startswith(f"wrote 1 record to {topic}\n")
    assert (process.returncode, complaint) == (130, "")


def unread_bytes(process: subprocess.Popen[str]) -> int:
    """What is in the pipe to a process and not read yet."""
    assert process.stdin is not None
    answer = fcntl.ioctl(process.stdin.fileno(), termios.FIONREAD, bytes(4))
    return int.from_bytes(answer, sys.byteorder)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stop_writes_and_tells_every_line_that_was_read(
    bootstrap: str, make_topic: Topics, number: signal.Signals
) -> None:
    topic = make_topic(1)
    process = josefine_process(bootstrap, "produce", topic)
    assert process.stdin is not None
    process.stdin.write("first\n")
    process.stdin.flush()
    wait_until(lambda: josefine(bootstrap, "consume", topic).out == "first\n", 90, "the first")

    process.stdin.write("second\n")
    process.stdin.flush()
    wait_until(lambda: unread_bytes(process) == 0, 90, "the second line to be read")
    process.send_signal(number)
    out, complaint = process.communicate(timeout=90)

    assert out.startswith(f"wrote 2 records to {topic}\n")
    assert (process.returncode, complaint) == (128 + number, "")
    assert josefine(bootstrap, "consume", topic).out == "first\nsecond\n"


def test_a_refused_record_is_told_with_how_many_were_written(
    bootstrap: str, make_topic: Topics
) -> None:
    topic = make_topic(1)
    lines = "small\n" * 80_000 + "x" * 2_000_000 + "\n"

    done = josefine(bootstrap, "produce", topic, stdin=lines)
    stored = josefine(bootstrap, "consume", topic).out.count("\n")

    assert done.code == 1
    assert done.err.startswith(f"error: partition {topic}-0: ")
    assert "max.message.bytes is 1048588" in done.err
    assert "; the largest record is line 80,001, with 2,000,000 bytes (" in done.err
    assert f"({stored:,} records written)" in done.err


@pytest.mark.parametrize(
    ("redirection", "sentence"),
    [
        (">&-", "error: stdout is closed: there is nowhere to print records to\n"),
        ("> /dev/full", "error: no space left on device\n"),
    ],
)
def test_a_stdout_that_takes_nothing_is_one_sentence(
    bootstrap: str, ten_seconds: str, redirection: str, sentence: str
) -> None:
    command = shlex.join([*COMMAND, "consume", ten_seconds])

    done = subprocess.run(
        ["sh", "-c", f"{command} {redirection}"],
        env=environment(bootstrap), stderr=subprocess.PIPE, text=True, timeout=60, check=False,
    )  # fmt: skip

    assert (done.returncode, done.stderr) == (1, sentence)
