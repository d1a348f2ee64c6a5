"""Feature levels of the cluster (KIP-584), which bound what its brokers send to each other: a level
is finalized only when every broker supports it. Level 0 means that the feature is absent.

How to introduce a second version of anything (a change, a field of the image, a message between
brokers):

1. New code reads versions 1 and 2 and registers that: `SUPPORTED` becomes (1, 2). It writes version
   1 while `image.features[JOSEFINE_VERSION]` is 1: `encode_change` and `to_bytes` take the level.
2. A rolling restart gives every broker the new code; each registers with (1, 2). Blocks, snapshots
   and messages still have version 1, so old and new brokers work together, and any broker may be
   rolled back to the old code.
3. `UpdateFeatures` to 2 is committed only when every registered broker supports it. From that block
   on, old code cannot register (UNSUPPORTED_VERSION), so no broker receives what it cannot read.
4. A proposer writes version 2 once its *own* image is at 2. What was proposed as version 1 before
   and committed after is still readable.
5. The level never decreases: blocks and snapshots of version 2 stay in the log.
6. A later release may drop version 1 (`SUPPORTED` (2, 3)): it joins clusters at 2 and above, and
   starts from a snapshot that was written at 2.

The levels so far:

1. The first version of everything.
2. A registration reports the completeness of each log (`log_completeness.py`), and partitions store
   it with their last unclean election. At level 1 a broker with any log in doubt registers as not
   cleanly closed, which older brokers understand. Also: raft messages of format 2, in which a
   snapshot that is sent in chunks has a checksum; and a new reassignment target that drops a
   replica ends the leader epoch.
3. The logs of compacted topics are cleaned. An older broker would not finish an interrupted pass,
   and would take the result for a log with a hole. Also: a topic that is no longer compacted is
   marked, because older followers would stop at missing offsets; and the record of a committed
   offset may hold its own expiration time, which older brokers cannot read.

4. Transactions: older brokers ignore markers, and would return aborted records to read_committed.
5. Leaders ask the coordinator before they append a transaction's first batch (KIP-890): older
   brokers do not answer that request. Transaction records with tagged fields are readable.
6. ACLs and users are in the metadata: older brokers would allow every request, and know no user.
7. Client quotas are in the metadata: older brokers would not enforce any.
8. Configurations of groups are in the metadata: older brokers would not apply any.

The records of classic groups with members need no level: older brokers skip their keys and serve no
member, so until all brokers are new, a group may find a coordinator that does not know it. The
records of the consumer protocol need Kafka's own feature, `group.version` 1: a new cluster starts
with it, and UpdateFeatures raises it in an older one. It may be lowered again: then members of that
protocol are not served.

`share.version` 2 allows dead letters (KIP-1191): the state of a record that waits for its letter is
in the log of share states then, which older brokers cannot read. It is never lowered. Share groups
themselves need no level.

`transaction.version` has its own levels, which are Kafka's: clients depend on it, and an operator
may lower it. Level 5 includes the reading of its records.

A broker that finds a block it does not understand stops (`apply_block`): skipping it would fork the
image.
"""

from collections.abc import Iterable, Mapping

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.metadata.changes import FeatureLevel
from josefine_broker.engine.metadata.image import (
    GROUP_VERSION,
    TRANSACTION_VERSION,
    VERIFYING_LEVEL,
    BrokerEntry,
    FeatureRange,
)
from josefine_broker.engine.metadata.image import JOSEFINE_VERSION as JOSEFINE_VERSION

SHARE_VERSION = "share.version"
"""Kafka's feature of share groups. From level 2 on every broker reads the state of a record that
waits for its dead letter, so groups may have dead letters (KIP-1191). Clusters of before lack it.
"""

SUPPORTED: tuple[FeatureRange, ...] = (
    FeatureRange(JOSEFINE_VERSION, 1, 8),
    FeatureRange(GROUP_VERSION, 0, 1),
    FeatureRange(SHARE_VERSION, 1, 2),
    FeatureRange(TRANSACTION_VERSION, 1, 2),
)
"""The levels that this code supports. A new cluster starts with the highest of each."""


def raft_format(features: Mapping[str, int]) -> int:
    """The format of raft messages at these finalized levels."""
    return 2 if features.get(JOSEFINE_VERSION, 0) >= 2 else 1


def understands(features: Iterable[FeatureRange], name: str, level: int) -> bool:
    """Whether code with these features supports that level."""
    return any(each.name == name and each.min_level <= level <= each.max_level for each in features)


NEEDS = {TRANSACTION_VERSION: (JOSEFINE_VERSION, VERIFYING_LEVEL)}
"""Feature → the other feature, and its level, that must be finalized first (KIP-1022)."""


STAYS = frozenset({JOSEFINE_VERSION, SHARE_VERSION})
"""Features that are never lowered: older code cannot read what was written."""


def check_level(
    brokers: Iterable[BrokerEntry], wanted: FeatureLevel, features: Mapping[str, int]
) -> None:
    """Raises KafkaError(invalid_update_version) that names the broker or feature that prevents the
    level. `features`: the finalized levels at that point."""
    name, previous, level = wanted
    needed, least = NEEDS.get(name, ("", 0))
    if level > 0 and features.get(needed, 0) < least:
        raise KafkaError(
            ErrorCode.invalid_update_version, f"'{name}' {level} needs '{needed}' {least} first"
        )
    if level < 0:
        raise KafkaError(ErrorCode.invalid_update_version, f"'{name}' cannot be at level {level}")
    if name in STAYS and level < previous:
        raise KafkaError(
            ErrorCode.invalid_update_version,
            f"'{name}' cannot be lowered from {previous} to {level}: what was written stays",
        )
    for broker in brokers:
        if level > 0 and not understands(broker.features, name, level):
            raise KafkaError(
                ErrorCode.invalid_update_version,
                f"broker {broker.broker_id} does not support '{name}' {level}",
            )
