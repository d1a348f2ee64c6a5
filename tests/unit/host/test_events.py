"""Log lines: a constant message, fields after it, one line, nothing long."""

from __future__ import annotations

import logging
from io import StringIO

import pytest

from josefine_broker.host.events import FIELD_CHARS_MAX, EventFormatter


@pytest.fixture
def logger() -> tuple[logging.Logger, StringIO]:
    stream = StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(EventFormatter())
    logger = logging.Logger("test")
    logger.addHandler(handler)
    return logger, stream


def test_fields_follow_the_message(logger: tuple[logging.Logger, StringIO]) -> None:
    log, stream = logger
    log.info("segment rolled", extra={"topic": "orders", "base_offset": 17})
    line = stream.getvalue()
    assert line.endswith(" INFO segment rolled topic=orders base_offset=17\n")
    assert line[10] == "T"
    assert line[23] == "Z"


def test_a_field_with_spaces_or_newlines_stays_one_quoted_word(
    logger: tuple[logging.Logger, StringIO],
) -> None:
    log, stream = logger
    log.warning("connection closed", extra={"reason": "bad\nlength = 5", "client": ""})
    assert stream.getvalue().endswith("reason='bad\\nlength = 5' client=''\n")
    assert stream.getvalue().count("\n") == 1


def test_a_long_field_is_cut(logger: tuple[logging.Logger, StringIO]) -> None:
    log, stream = logger
    log.info("event", extra={"payload": "x" * 10_000})
    assert len(stream.getvalue()) < FIELD_CHARS_MAX + 100
