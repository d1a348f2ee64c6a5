"""A latency histogram: three additions and a bit length per observation."""

LATENCY_BUCKETS = 36
"""Powers of two of nanoseconds: the last bucket starts at 34 s, past any request's deadline."""
FIRST_TOLD = 14
"""Exported from 16 µs: no measured operation is faster, and each bucket is a series."""


class Latencies:
    """Latencies of one kind of operation. Mutated by one thread at a time."""

    __slots__ = ("buckets", "sum_ns")

    def __init__(self) -> None:
        self.sum_ns = 0
        self.buckets = [0] * LATENCY_BUCKETS

    def record(self, elapsed_ns: int) -> None:
        self.sum_ns += elapsed_ns
        bucket = elapsed_ns.bit_length()
        self.buckets[bucket if bucket < LATENCY_BUCKETS else LATENCY_BUCKETS - 1] += 1

    def record_many(self, elapsed_ns: int, count: int) -> None:
        """The same latency for several operations that were done together."""
        self.sum_ns += elapsed_ns * count
        bucket = elapsed_ns.bit_length()
        self.buckets[bucket if bucket < LATENCY_BUCKETS else LATENCY_BUCKETS - 1] += count

    def told(self) -> list[tuple[str, float]]:
        """(upper bound in seconds, cumulative count), in Prometheus' format."""
        total, found = 0, []
        for bucket, amount in enumerate(self.buckets):
            total += amount
            if bucket >= FIRST_TOLD:
                found.append((f"{(1 << bucket) / 1e9:.9g}", float(total)))
        found[-1] = ("+Inf", float(total))
        return found
