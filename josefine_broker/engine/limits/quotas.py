"""How long a client has to be quiet for what it did: Kafka's quotas (KIP-13, KIP-124, KIP-546).

Each quota that applies is a bucket that fills at its rate. What is done is done, and paid for
behind it: a bucket below zero says for how long its client is not to be heard (KIP-219). Time is
monotonic and an argument.
"""

from josefine_broker.base.quotas import DEFAULT, KEYS, REQUEST, Quotas

BURST_SECONDS = 1.0
"""What an idle client saves up; Kafka's saves ten."""
THROTTLE_MS_MAX = 30_000
"""Nobody is quiet for longer, nor owes more: a group waits 45 s for a member by default."""
BUCKETS_MIN = 1_000
"""So many are kept before anybody looks which are full again, and need not be kept."""

Who = tuple[str | None, str | None]


class Bucket:
    """Of one quota and whom it bounds."""

    __slots__ = ("_at_ms", "_level", "rate")

    def __init__(self, rate: float, now_ms: int) -> None:
        self.rate = rate
        """Units a second."""
        self._level = rate * BURST_SECONDS
        self._at_ms = now_ms

    def take(self, amount: float, now_ms: int) -> int:
        """For how many milliseconds its client is to be quiet."""
        level = self._level_at(now_ms) - amount
        self._level = max(level, -self.rate * THROTTLE_MS_MAX / 1_000)
        self._at_ms = now_ms
        return 0 if level >= 0 else max(1, round(-self._level * 1_000 / self.rate))

    def is_full(self, now_ms: int) -> bool:
        """A new one would say the same."""
        return self._level_at(now_ms) >= self.rate * BURST_SECONDS

    def _level_at(self, now_ms: int) -> float:
        gained = self.rate * (now_ms - self._at_ms) / 1_000
        return min(self._level + gained, self.rate * BURST_SECONDS)


class QuotaKeeper:
    """Of one broker: each bounds what it sees, as Kafka's do."""

    __slots__ = ("_bounds", "_buckets", "_buckets_max", "_quotas")

    def __init__(self) -> None:
        self._quotas: Quotas = {}
        self._bounds: dict[str, dict[Who, float]] = {}
        self._buckets: dict[tuple[str, Who], Bucket] = {}
        self._buckets_max = BUCKETS_MIN

    def follow(self, quotas: Quotas) -> bool:
        """These count from now on; whether there are any."""
        if quotas is not self._quotas:
            self._quotas = quotas
            self._bounds = {key: _bounds_of(quotas, key) for key in KEYS}
        return bool(quotas)

    def bound(self, key: str, user: str, client_id: str) -> tuple[float, Who] | None:
        """What bounds this client, in units a second, and with whom it shares that: the most
        special quota counts, a user's before a client id's."""
        bounds = self._bounds.get(key)
        if not bounds:
            return None
        for as_user in (user, DEFAULT, None):
            for as_client in (client_id, DEFAULT, None):
                rate = bounds.get((as_user, as_client))
                if rate is not None:
                    shared_by_user = None if as_user is None else user
                    return rate, (shared_by_user, None if as_client is None else client_id)
        return None

    def charge(self, key: str, user: str, client_id: str, amount: float, now_ms: int) -> int:
        """For how many milliseconds the client is to be quiet: it has just done `amount`, in bytes
        or, of requests, in seconds of the broker's thread."""
        found = self.bound(key, user, client_id)
        if found is None:
            return 0
        rate, who = found
        bucket = self._buckets.get((key, who))
        if bucket is None or bucket.rate != rate:
            self._make_room(now_ms)
            bucket = self._buckets[key, who] = Bucket(rate, now_ms)
        return bucket.take(amount, now_ms)

    def __len__(self) -> int:
        return len(self._buckets)

    def _make_room(self, now_ms: int) -> None:
        if len(self._buckets) >= self._buckets_max:
            left = {who: each for who, each in self._buckets.items() if not each.is_full(now_ms)}
            self._buckets = left
            self._buckets_max = max(BUCKETS_MIN, 2 * len(left))


def _bounds_of(quotas: Quotas, key: str) -> dict[Who, float]:
    scale = 0.01 if key == REQUEST else 1.0
    return {entity: bounds[key] * scale for entity, bounds in quotas.items() if key in bounds}
