"""What changes of topics ask for, when they give up, and what is forgotten afterwards."""

from __future__ import annotations

from typing import Any

import pytest

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.client import admin, operations
from josefine_broker.client.effects import Call
from josefine_broker.wire import apis
from josefine_broker.wire import entities as e
from tests.unit.josefine_broker.client.driver import Driver, is_metadata, metadata

ALTER = e.incremental_alter_configs


def knowing(answer: Any) -> Driver:
    """A client that knows topics `t` and `u`, and gets this answer to everything else."""

    def whole(call: Call) -> Any:
        return metadata({"t": [1], "u": [1]}) if is_metadata(call) else answer

    driver = Driver(whole)
    driver.run(lambda t, d: operations.metadata(driver.session, None, t, d))
    return driver


def test_a_deleted_topic_is_forgotten_and_others_are_not() -> None:
    done = e.delete_topics.DeletableTopicResult(name="t")
    driver = knowing(e.delete_topics.DeleteTopicsResponse(responses=(done,)))

    driver.run(lambda t, d: admin.delete_topics(driver.session, ["t"], t, d))

    assert list(driver.session.cluster.topics) == ["u"]


def test_a_widened_topic_is_forgotten_for_it_has_more_partitions_now() -> None:
    done = e.create_partitions.CreatePartitionsTopicResult(name="t")
    driver = knowing(e.create_partitions.CreatePartitionsResponse(results=(done,)))

    driver.run(lambda t, d: admin.create_partitions(driver.session, {"t": 3}, False, t, d))

    assert list(driver.session.cluster.topics) == ["u"]


def test_widening_a_topic_that_is_not_there_fails_at_once() -> None:
    gone = e.create_partitions.CreatePartitionsTopicResult(
        name="t", error_code=ErrorCode.unknown_topic_or_partition
    )
    driver = knowing(e.create_partitions.CreatePartitionsResponse(results=(gone,)))

    with pytest.raises(KafkaError, match="topic 't' does not exist"):
        driver.run(lambda t, d: admin.create_partitions(driver.session, {"t": 3}, False, t, d))

    assert driver.paused_ms == 0


def test_a_configuration_without_a_value_goes_back_to_its_default() -> None:
    driver = knowing(ALTER.IncrementalAlterConfigsResponse(responses=()))
    changes = {"t": {"retention.ms": "5", "segment.ms": None}}

    driver.run(lambda t, d: admin.alter_configs(driver.session, changes, False, t, d))

    (resource,) = driver.calls[-1].request.resources
    asked = {each.name: (each.config_operation, each.value) for each in resource.configs}
    assert asked == {"retention.ms": (0, "5"), "segment.ms": (1, None)}  # SET, DELETE: KIP-339


@pytest.mark.parametrize("validate_only", [False, True])
def test_a_topic_that_is_only_to_be_checked_is_asked_for_as_such(validate_only: bool) -> None:
    done = e.create_topics.CreatableTopicResult(name="n", num_partitions=1, configs=None)
    driver = knowing(e.create_topics.CreateTopicsResponse(topics=(done,)))

    driver.run(
        lambda t, d: admin.create_topics(driver.session, [admin.NewTopic("n")], validate_only, t, d)
    )

    assert driver.calls[-1].api_key == apis.CREATE_TOPICS
    assert driver.calls[-1].request.validate_only is validate_only
