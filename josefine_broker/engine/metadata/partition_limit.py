"""The limit of partitions per broker, checked against the image.

Every partition costs memory, and time on each tick, so a broker hosts a limited number. The limit
is in the configuration of the broker that decides and applies to every broker that would host. It
is checked when a request arrives, so two concurrent requests may both pass. Existing partitions
stay.
"""

from collections import Counter
from collections.abc import Iterable

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.metadata.image import MetadataImage


class PartitionLimit:
    """The remaining room while the topics of one request are decided on, one after another."""

    def __init__(self, image: MetadataImage, partitions_max: int) -> None:
        self._image = image
        self._partitions_max = partitions_max
        self._hosted: Counter[int] | None = None
        """Counted on first use: the request may be invalid for another reason."""

    def take(self, replicas: Iterable[Iterable[int]]) -> None:
        """Take room for the brokers of each new partition, or for none of them.

        Raises KafkaError(policy_violation), the code of KIP-578: clients do not retry it.
        """
        if self._hosted is None:
            self._hosted = Counter(
                broker_id
                for topic in self._image.topics.values()
                for entry in topic.partitions
                for broker_id in entry.replicas
            )
        wanted = Counter(broker_id for ids in replicas for broker_id in ids)
        for broker_id, count in sorted(wanted.items()):
            hosted = self._hosted[broker_id]
            if hosted + count > self._partitions_max:
                raise KafkaError(
                    ErrorCode.policy_violation,
                    f"broker {broker_id} hosts {hosted} partitions and would host "
                    f"{hosted + count}; broker.partitions_max is {self._partitions_max}",
                )
        self._hosted += wanted
