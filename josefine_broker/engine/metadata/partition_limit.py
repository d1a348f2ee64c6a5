"""How many more partitions each broker may be given, as the image tells.

Every partition costs memory and time on each tick, so a broker hosts a bounded number. The bound is
the deciding broker's configuration and holds for whoever is to host; it is judged when a request
comes, so two that come at once may both pass. What is there already stays.
"""

from collections import Counter
from collections.abc import Iterable

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.metadata.image import MetadataImage


class PartitionLimit:
    """What is left while the topics of one request are decided on, one after another."""

    def __init__(self, image: MetadataImage, partitions_max: int) -> None:
        self._image = image
        self._partitions_max = partitions_max
        self._hosted: Counter[int] | None = None
        """Counted when first needed: a request may be wrong for other reasons."""

    def take(self, replicas: Iterable[Iterable[int]]) -> None:
        """These are to be hosted too, the brokers of each new partition, or none of them.

        Raises KafkaError(policy_violation), the code of KIP-578: it is not for trying again.
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
