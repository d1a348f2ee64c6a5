"""The recorded verdicts on good and broken batches, against Apache Kafka and against ours."""

from __future__ import annotations

import os
import time

import pytest

from tests.compat.brokers import WITH_APACHE_KAFKA
from tests.compat.produced_batches import Verdict, ask, fuzzed, load
from tests.unit.josefine_broker.api.test_produced_batches import may_differ, our_world
from tests.unit.josefine_broker.api.world import NOW_MS

FUZZED = int(os.environ.get("JOSEFINE_FUZZ_CASES", "1500"))
SEED = int(os.environ.get("JOSEFINE_FUZZ_SEED", "1"))


@pytest.mark.skipif(not WITH_APACHE_KAFKA, reason="asks Apache Kafka: ./build.sh test oracle")
def test_apache_kafka_still_answers_what_was_recorded(bootstrap: str) -> None:
    recorded = load()

    asked = ask(bootstrap, [case for case, _ in recorded])

    assert [
        f"{case.name}: recorded {code}, now {now}"
        for (case, code), (_, now) in zip(recorded, asked, strict=True)
        if code != now
    ] == []


@pytest.mark.skipif(not WITH_APACHE_KAFKA, reason="asks Apache Kafka: ./build.sh test oracle")
def test_a_fuzzed_batch_has_the_same_verdict_here_and_there(bootstrap: str) -> None:
    """JOSEFINE_FUZZ_SEED and JOSEFINE_FUZZ_CASES draw others, or more."""
    world = our_world()
    world.clock.elapsed_ms = time.time_ns() // 1_000_000 - NOW_MS
    differ = []
    for case, theirs in ask(bootstrap, list(fuzzed(SEED, FUZZED))):
        answer = world.produce(case.batch, topic=case.topic, acks=1)
        ours, message = answer.error_code, answer.error_message or ""
        if ours != theirs and not may_differ(case, theirs, ours, message):
            differ.append(f"{case.name} (seed {SEED}): Kafka {theirs}, ours {ours} {message}")

    assert differ == []


@pytest.mark.skipif(WITH_APACHE_KAFKA, reason="of our broker")
def test_our_broker_gives_the_recorded_verdicts_through_its_sockets(bootstrap: str) -> None:
    """A part of them: the daily tests replay all of them without sockets."""
    recorded = load()[::10]

    asked = ask(bootstrap, [case for case, _ in recorded])

    wrong: list[Verdict] = [
        Verdict(case, ours)
        for (case, theirs), (_, ours) in zip(recorded, asked, strict=True)
        if (ours == 0) != (theirs == 0)
        and not may_differ(case, theirs, ours, "")
        and case.kind != "random"
    ]
    assert wrong == []
