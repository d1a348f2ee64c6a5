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
from tests.support.spark_settings import settings_kept

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


LIMIT, OWN = "spark.sql.files.maxRecordsPerFile", "spark.josefine.directCommits"
STATIC, CATALOG = "spark.sql.warehouse.dir", "spark.sql.catalog.mine"


@pytest.mark.parametrize("turn", range(2))
def test_no_test_finds_the_settings_of_another(spark, turn):
    """The second one would find those of the first."""
    assert (spark.conf.get(LIMIT), spark.conf.get(OWN, "none")) == ("0", "none")
    for name in (LIMIT, OWN):
        spark.conf.set(name, "7")


def test_settings_that_were_set_changed_and_unset_are_put_back(spark):
    for name in (LIMIT, OWN):
        spark.conf.set(name, "1")
    before = spark.conf.getAll

    with settings_kept(spark):
        spark.conf.set(LIMIT, "2")
        spark.conf.unset(OWN)
        spark.conf.set(CATALOG, "x")
        assert spark.conf.getAll != before

    assert spark.conf.getAll == before


def test_a_running_session_gets_the_settings_that_can_be_changed_for_good(spark):
    warehouse = spark.conf.get(STATIC)
    asked = {
        LIMIT: "5",
        OWN: "false",
        CATALOG: "x",
        STATIC: "/elsewhere",
        "spark.driver.memory": "9g",
    }

    found = session(conf=asked)

    assert [found.conf.get(name) for name in (LIMIT, OWN, CATALOG)] == ["5", "false", "x"]
    assert found.conf.get(STATIC) == warehouse
    assert found.conf.get("spark.driver.memory") != "9g"
    assert session().conf.get(LIMIT) == "5"
