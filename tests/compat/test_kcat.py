"""kcat, as people use it at a prompt, against our broker. Skipped where it is not installed."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable

import pytest

from tests.compat.samples import COMPRESSIONS

KCAT = shutil.which("kcat")
pytestmark = pytest.mark.skipif(KCAT is None, reason="kcat is not installed (apt install kcat)")

Topics = Callable[..., str]


def kcat(bootstrap: str, *arguments: str, stdin: str = "") -> str:
    done = subprocess.run(
        [str(KCAT), "-b", bootstrap, *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_lines_come_back_as_kcat_sent_them(
    bootstrap: str, make_topic: Topics, compression: str
) -> None:
    """Checklist row 22."""
    topic = make_topic(2)
    lines = [f"key-{n}:value {n}" for n in range(500)]

    kcat(
        bootstrap, "-P", "-t", topic, "-p", "1", "-K:", "-z", compression, "-H", "h=1",
        stdin="\n".join(lines) + "\n",
    )  # fmt: skip
    output = kcat(bootstrap, "-C", "-t", topic, "-p", "1", "-o", "beginning", "-e", "-K:")

    assert output.splitlines() == lines


@pytest.mark.parametrize("compression", [name for name in COMPRESSIONS if name != "none"])
def test_kcat_does_compress_when_asked(
    bootstrap: str, make_topic: Topics, compression: str
) -> None:
    """librdkafka before 2.11 sends plain batches to a broker without Produce 0 (KAFKA-18659)."""
    arguments = ["-P", "-t", make_topic(), "-p", "0", "-z", compression, "-d", "msg"]

    done = subprocess.run(
        [str(KCAT), "-b", bootstrap, *arguments],
        input="a line that compresses well\n" * 500,
        capture_output=True,
        text=True,
        timeout=90,
        check=True,
    )

    assert "does not support compression" not in done.stderr
    assert compression in done.stderr


def test_null_values_are_sent_and_shown(bootstrap: str, make_topic: Topics) -> None:
    topic = make_topic()

    kcat(bootstrap, "-P", "-t", topic, "-K:", "-Z", stdin="key:\n")
    output = kcat(bootstrap, "-C", "-t", topic, "-p", "0", "-e", "-J")

    record = json.loads(output)
    assert (record["key"], record["payload"]) == ("key", None)


def test_metadata_is_listed_and_offsets_are_queried(bootstrap: str, make_topic: Topics) -> None:
    topic = make_topic(3)
    kcat(bootstrap, "-P", "-t", topic, "-p", "2", stdin="a\nb\nc\n")

    listed = json.loads(kcat(bootstrap, "-L", "-J", "-t", topic))
    offsets = kcat(bootstrap, "-Q", "-t", f"{topic}:2:-1")

    assert [p["partition"] for p in listed["topics"][0]["partitions"]] == [0, 1, 2]
    assert offsets.split() == [topic, "[2]", "offset", "3"]
