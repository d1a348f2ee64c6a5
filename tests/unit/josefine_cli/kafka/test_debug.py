"""The end of a log in a debug bundle."""

from __future__ import annotations

from pathlib import Path

from josefine_cli.kafka.debug import LOG_BYTES_MAX, log_end


def test_a_long_log_is_cut_at_its_beginning_between_two_lines(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    lines = [f"line {number} ".ljust(100, ".") for number in range(10_000)]
    log.write_text("\n".join(lines) + "\n")

    left = log_end(log).splitlines()

    assert LOG_BYTES_MAX - 101 < len("\n".join(left)) + 1 <= LOG_BYTES_MAX
    assert left == lines[-len(left) :]


def test_a_short_log_is_whole_whatever_its_bytes(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_bytes(b"a\xff\nb")

    assert log_end(log) == "a\ufffd\nb"
