"""Features that the cluster finalizes (KIP-584): what the brokers of one cluster may say to each
other is bounded by levels that all of them understand. Level 0 is the absence of one.

How a second version of anything comes (a change, a field of the image, a message between brokers):

1. The new code reads versions 1 and 2 and says so: `SUPPORTED` becomes (1, 2). It writes 1 while
   `image.features[JOSEFINE_VERSION]` is 1; so `encode_change` and `to_bytes` take the level.
2. A rolling restart gives every broker the new code; each registers as able to do (1, 2). Blocks,
   snapshots and messages are still of version 1, so old and new brokers work side by side, and any
   broker may go back to the old code.
3. `UpdateFeatures` to 2 is committed only when every registered broker understands it. From that
   block on old code cannot register (UNSUPPORTED_VERSION), so nobody meets what it cannot read.
4. A proposer writes version 2 once its *own* image says 2. What was proposed as 1 before and is
   committed after is read all the same.
5. The level does not go down again: blocks and snapshots of version 2 stay where they are.
6. The code after next may drop version 1 (`SUPPORTED` (2, 3)): it joins clusters at 2 and above,
   and starts from a snapshot that was written at 2.

The levels so far:

1. Everything at the beginning.
2. A registration says of each log what may be believed of it (`log_completeness.py`), partitions
   keep it, and they know their last unclean election. At level 1 a broker with any log in doubt
   registers as one that was not closed, which brokers of before understand. And: messages of raft
   of format 2, in which a snapshot that is sent in chunks has a checksum; a new target of a
   reassignment that drops a replica ends the leader epoch.
3. The logs of compacted topics are cleaned. A broker of before, put back in the middle of that,
   would not finish it, and would take the rest for a log with a hole. And: a topic that is not
   compacted any more says that it was, for followers of before would halt at what is missing; a
   committed offset may say itself when it expires, in a record that brokers of before do not read.

4. Transactions: brokers of before know no markers, and would show read_committed what was aborted.
5. Leaders ask the coordinator before a transaction's first batch is let in (KIP-890): brokers of
   before cannot be asked. Records of transactions with tagged fields are read.
6. ACLs and users are in the metadata: brokers of before would serve everybody, and let in nobody.
7. Quotas of clients are in the metadata: brokers of before would bound nobody.

The records of classic groups with members need no level: brokers of before pass over their keys,
and serve no member, so until all are new a group may find a coordinator that does not know it.
Those of the consumer protocol wait for Kafka's own feature, `group.version` 1: a new cluster begins
with it, one of before is told by UpdateFeatures. It may go down again: then no such member is
served.

`transaction.version` has its own levels, Kafka's: clients go by it, and an operator may lower it.
Its records are what level 5 reads.

A broker without this discipline finds a block it does not understand and stops (`apply_block`):
skipping it would fork the image.
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

SUPPORTED: tuple[FeatureRange, ...] = (
    FeatureRange(JOSEFINE_VERSION, 1, 7),
    FeatureRange(GROUP_VERSION, 0, 1),
    FeatureRange(TRANSACTION_VERSION, 1, 2),
)
"""What this code understands. A new cluster begins with the newest of each."""


def raft_format(features: Mapping[str, int]) -> int:
    """Of raft's messages, at the levels that the cluster has finalized."""
    return 2 if features.get(JOSEFINE_VERSION, 0) >= 2 else 1


def understands(features: Iterable[FeatureRange], name: str, level: int) -> bool:
    """Whether code with these features can work at that level."""
    return any(each.name == name and each.min_level <= level <= each.max_level for each in features)


NEEDS = {TRANSACTION_VERSION: (JOSEFINE_VERSION, VERIFYING_LEVEL)}
"""What another feature has to be at, before this one is finalized (KIP-1022)."""


def check_level(
    brokers: Iterable[BrokerEntry], wanted: FeatureLevel, features: Mapping[str, int]
) -> None:
    """Raises KafkaError(invalid_update_version): whoever cannot follow is named. `features`: what
    is finalized then."""
    name, previous, level = wanted
    needed, least = NEEDS.get(name, ("", 0))
    if level > 0 and features.get(needed, 0) < least:
        raise KafkaError(
            ErrorCode.invalid_update_version, f"'{name}' {level} needs '{needed}' {least} first"
        )
    if level < 0:
        raise KafkaError(ErrorCode.invalid_update_version, f"'{name}' cannot be at level {level}")
    if name == JOSEFINE_VERSION and level < previous:
        raise KafkaError(
            ErrorCode.invalid_update_version,
            f"'{name}' does not go back from {previous} to {level}: what was written stays",
        )
    for broker in brokers:
        if level > 0 and not understands(broker.features, name, level):
            raise KafkaError(
                ErrorCode.invalid_update_version,
                f"broker {broker.broker_id} does not understand '{name}' {level}",
            )
