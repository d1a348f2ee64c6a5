"""The answers to requests for stored share states: each partition has its own outcome."""

from __future__ import annotations

from types import SimpleNamespace
from uuid import UUID

from josefine_broker.api.shared.share_states import keys_of, results_of

A, B = UUID(int=1), UUID(int=2)


def test_each_partition_gets_its_own_outcome_in_the_order_of_the_request() -> None:
    def topic(topic_id: UUID, *indexes: int) -> SimpleNamespace:
        partitions = [SimpleNamespace(partition=index) for index in indexes]
        return SimpleNamespace(topic_id=topic_id, partitions=partitions)

    request = SimpleNamespace(group_id="g", topics=[topic(B, 3, 1), topic(A, 1)])
    outcomes = dict(zip(keys_of(request), "xyz", strict=True))

    results = results_of(
        request,
        dict(reversed(outcomes.items())),  # type: ignore[arg-type]
        lambda topic_id, partitions: (topic_id, partitions),
        lambda outcome, partition: (outcome, partition),
    )

    assert results == ((B, (("x", 3), ("y", 1))), (A, (("z", 1),)))
