"""Log lines: a constant message, fields after it, one line, nothing long."""

from __future__ import annotations

import json
import logging
import math
from io import StringIO

import pytest

from josefine_broker.host.events import FIELD_CHARS_MAX, EventFormatter, JsonFormatter


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


def test_json_line_is_one_object_with_the_fields_apart() -> None:
    stream = StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter())
    log = logging.Logger("josefine.test")
    log.addHandler(handler)
    fields = {
        "topic": "a\nb",
        "offset": 17,
        "level": "x",
        "ratio": 0.5,
        "far": math.inf,
        "up": True,
    }
    log.info("segment %s", "rolled", extra={**fields, "nobody": None, "payload": b"x" * 10_000})
    try:
        raise ValueError("no\nlines")
    except ValueError:
        log.exception("failed")

    first, second = map(json.loads, stream.getvalue().splitlines())
    assert first.pop("time")[10:24:13] == "TZ"
    assert len(first["fields"].pop("payload")) == FIELD_CHARS_MAX + 1
    assert first == {
        "level": "INFO",
        "logger": "josefine.test",
        "message": "segment rolled",
        "fields": {**fields, "far": "inf", "nobody": None},
    }
    assert (second["level"], second["fields"]) == ("ERROR", {})
    assert second["trace"].endswith("ValueError: no\nlines")
