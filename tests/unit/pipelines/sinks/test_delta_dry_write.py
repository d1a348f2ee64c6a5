"""What a failed dry write is in the user's words."""

from __future__ import annotations

import pytest

from pipelines.base.errors import Place, RunError
from pipelines.model.pipeline import Sink
from pipelines.model.retry_policy import RETRIES
from pipelines.sinks.delta_dry_write import in_one_sentence

py4j = pytest.importorskip("py4j.protocol")
PLACE = Place(file="f", line=1, column=1)
SINK = Sink(
    name="s", place=PLACE, input="", path="/lake", table=None, keys=(), aggregates=()
)  # fmt: skip


def test_an_error_of_delta_is_one_sentence_without_its_class():
    text = (
        "An error occurred while calling o5.sql.\n: org.x.YException: [DELTA_BAD] No such thing. At"
    )
    with pytest.raises(RunError) as told, in_one_sentence(SINK, "by a dry write"):
        raise py4j.Py4JError(text)

    assert str(told.value) == "sink `s`: /lake cannot take the rows, by a dry write: No such thing"


def test_an_error_that_another_attempt_cures_stays_one():
    with pytest.raises(py4j.Py4JError), in_one_sentence(SINK, "by a dry write"):
        raise py4j.Py4JError(RETRIES[0].mark)
