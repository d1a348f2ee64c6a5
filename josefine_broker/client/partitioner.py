"""The partition of a key, if the producer names none.

It is the partition that Kafka's Java client chooses (murmur2), so that producers of both kinds keep
the order of a key.
"""

_SEED = 0x9747B28C
_M = 0x5BD1E995
_MASK = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """Austin Appleby's murmur2 with Kafka's seed, as an unsigned 32-bit integer."""
    length = len(data)
    h = (_SEED ^ length) & _MASK
    end = length & ~3
    for pos in range(0, end, 4):
        k = int.from_bytes(data[pos : pos + 4], "little") * _M & _MASK
        k = (k ^ (k >> 24)) * _M & _MASK
        h = (h * _M & _MASK) ^ k
    tail = data[end:]
    if tail:
        h = (h ^ int.from_bytes(tail, "little")) * _M & _MASK
    h = (h ^ (h >> 13)) * _M & _MASK
    return h ^ (h >> 15)


def partition_for_key(key: bytes, partition_count: int) -> int:
    """The partition of a key, the one Kafka's default partitioner chooses."""
    return (murmur2(key) & 0x7FFFFFFF) % partition_count
