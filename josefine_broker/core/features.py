"""Features that the cluster finalizes (KIP-584): what the brokers of one cluster may say to each
other is bounded by levels that all of them understand.

A rolling upgrade replaces every broker's code first and raises the level then (UpdateFeatures); a
broker that does not understand a finalized level cannot register. Level 0 is the absence of one.
"""

from collections.abc import Iterable

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.core.image import BrokerEntry, FeatureRange

JOSEFINE_VERSION = "josefine.version"
"""Formats of blocks, snapshots and messages between brokers, as one number."""

SUPPORTED: tuple[FeatureRange, ...] = (FeatureRange(JOSEFINE_VERSION, 1, 1),)
"""What this code understands."""


def understands(features: Iterable[FeatureRange], name: str, level: int) -> bool:
    """Whether code with these features can work at that level."""
    return any(each.name == name and each.min_level <= level <= each.max_level for each in features)


def check_level(brokers: Iterable[BrokerEntry], name: str, level: int) -> None:
    """Raises KafkaError(invalid_update_version) naming the first broker that cannot follow."""
    if level < 0 or (level == 0 and name == JOSEFINE_VERSION):
        raise KafkaError(ErrorCode.invalid_update_version, f"'{name}' cannot be at level {level}")
    for broker in brokers:
        if level > 0 and not understands(broker.features, name, level):
            raise KafkaError(
                ErrorCode.invalid_update_version,
                f"broker {broker.broker_id} does not understand '{name}' {level}",
            )
