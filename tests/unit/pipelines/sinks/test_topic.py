"""The topic target without Spark: what `pipeline check` finds of a topic."""

from __future__ import annotations

from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from josefine_broker.base.errors import ErrorCode, KafkaError
from pipelines.base.finding import ABSENT, ERROR, FORBIDDEN, OK
from pipelines.config.topic import NO_TOPIC
from pipelines.model.pipeline import Sink
from pipelines.sinks.targets import target_of
from pipelines.sinks.topic import OpenTopic, TopicTarget
from tests.unit.pipelines.config.bad_sinks import SINK
from tests.unit.pipelines.config.sections import read
from tests.unit.pipelines.config.test_validate import GOOD

TOPIC = "  lake: { type: josefine, inputs: [clean], topic: out }\n"
PIPELINE = read(GOOD.replace(SINK, TOPIC))[0]


def sink() -> Sink:
    return PIPELINE.sinks["lake"]


def probe(code: ErrorCode | None, error: Exception | None = None) -> str | None:
    @contextmanager
    def connect(bootstrap, security):
        assert bootstrap == "localhost:9092"
        if error:
            raise error
        found = SimpleNamespace(topics={"out": SimpleNamespace(error_code=code)})
        yield SimpleNamespace(metadata=lambda names: found)

    return TopicTarget(sink()).probe(connect)


@pytest.mark.parametrize(
    ("code", "trouble"),
    [
        (ErrorCode.none, ""),
        (ErrorCode.unknown_topic_or_partition, ABSENT),
        (ErrorCode.topic_authorization_failed, FORBIDDEN),
        (ErrorCode.leader_not_available, "leader_not_available"),
    ],
)
def test_a_topic_is_there_or_the_brokers_reason_is_reported(code, trouble):
    assert probe(code) == trouble


@pytest.mark.parametrize("error", [OSError("refused"), KafkaError(ErrorCode.request_timed_out)])
def test_brokers_that_do_not_answer_are_a_trouble_with_their_address(error):
    found = probe(None, error)

    assert found is not None
    assert found.startswith("localhost:9092: ")


@pytest.mark.parametrize(
    ("trouble", "level", "fix"),
    [
        ("", OK, ""),
        (ABSENT, ERROR, "josefine topics create out -b localhost:9092"),
        ("refused", ERROR, "start the brokers, or correct `bootstrap` at f.yaml:14:3"),
    ],
)
def test_each_trouble_has_a_fix(trouble, level, fix):
    (found,) = TopicTarget(sink()).findings(trouble)

    assert (found.level, found.mend) == (level, fix)


def test_a_topic_that_was_not_probed_has_no_finding():
    assert TopicTarget(sink()).findings(None) == []


def test_a_topic_only_grows():
    target = target_of(sink())

    assert isinstance(target, TopicTarget)
    assert (target.keys(), list(target.folders()), target.gets_replay) == ((), [], False)
    assert target.as_stored("rows") == "rows"
    assert OpenTopic(None, None).fit({"a": "string"}, {"columns": ["b"]})
    assert NO_TOPIC
    with pytest.raises(AssertionError, match="a topic only grows"):
        OpenTopic(None, None).commit(None, None, 0, {}, span=object())


def test_losses_of_a_topic_are_next_to_the_checkpoint():
    assert str(TopicTarget(sink()).loss_table(PIPELINE).path).startswith("/ck/")
