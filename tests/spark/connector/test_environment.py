"""The environment map that all streams of a JVM share must keep its shape while they start."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.errors import PySparkException

from josefine_spark import session
from josefine_spark.options import environment
from josefine_spark.options.environment import (
    NAMES,
    NO_WORKER,
    settle_environment,
    shared_environment,
)
from josefine_spark.sessions.registration import make_active
from tests.spark.connector.conftest import HAS_LIMITS

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


def names(spark) -> set[str]:
    return set(shared_environment(spark))


def forget(spark) -> None:
    """As in a fresh JVM. No stream runs meanwhile."""
    for name in NAMES:
        shared_environment(spark).remove(name)


@pytest.fixture
def topic(topics) -> str:
    name = topics.create()
    topics.fill(name, 0, 3)
    return name


def test_a_session_has_all_names_before_a_stream_starts(spark):
    make_active(spark)  # an earlier test of this thread may have left a session of its own there
    forget(spark)

    session()

    assert set(NAMES) <= names(spark)


def test_a_starting_stream_puts_in_exactly_the_names_that_are_settled(spark, stream, topic):
    forget(spark)
    before = names(spark)

    stream.run(topic)

    of_this_spark = set(NAMES) if HAS_LIMITS else set(NAMES) - {"SPARK_PYTHON_RUNTIME"}
    assert names(spark) - before == of_this_spark


def test_after_settling_a_starting_stream_adds_no_name(spark, stream, topic):
    forget(spark)
    settle_environment(spark)
    settled = names(spark)

    stream.run(topic)

    assert names(spark) == settled
    assert stream.values == [0, 1, 2]


def test_settling_leaves_values_that_are_there(spark):
    shared_environment(spark).put(NAMES[0], "/somewhere")

    settle_environment(spark)

    assert shared_environment(spark).get(NAMES[0]) == "/somewhere"


def test_a_python_that_did_not_start_in_time_is_started_again(spark, monkeypatch):
    """The first test here failed once on a busy machine: nothing was put in."""
    asked = iter([PySparkException(NO_WORKER), shared_environment(spark)])

    def slow(_) -> Any:
        found = next(asked)
        if isinstance(found, Exception):
            raise found
        return found

    forget(spark)
    monkeypatch.setattr(environment, "shared_environment", slow)

    settle_environment(spark)

    assert set(NAMES) <= names(spark)
