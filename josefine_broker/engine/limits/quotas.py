"""Client quotas: how long a client is throttled for what it did (KIP-13, KIP-124, KIP-546).

Each quota is a token bucket that fills at its rate. Work is done first and charged afterwards: the
level of a bucket below zero determines how long its client is throttled (KIP-219). Time is
monotonic and an argument.
"""

from josefine_broker.base.quotas import DEFAULT, KEYS, REQUEST, Quotas

BURST_SECONDS = 1.0
"""How much an idle client accumulates; ten seconds in Kafka."""
THROTTLE_MS_MAX = 30_000
"""The longest throttle time and debt: by default a group waits 45 s for a member."""
BUCKETS_MIN = 1_000
"""Above this number, full buckets are removed, which equal new ones."""

Who = tuple[str | None, str | None]


class Bucket:
    """The token bucket of one quota and the clients that share it."""

    __slots__ = ("_at_ms", "_level", "rate")

    def __init__(self, rate: float, now_ms: int) -> None:
        self.rate = rate
        """Units per second."""
        self._level = rate * BURST_SECONDS
        self._at_ms = now_ms

    def take(self, amount: float, now_ms: int) -> int:
        """Charge an amount; returns the throttle time in milliseconds."""
        level = self._level_at(now_ms) - amount
        self._level = max(level, -self.rate * THROTTLE_MS_MAX / 1_000)
        self._at_ms = now_ms
        return 0 if level >= 0 else max(1, round(-self._level * 1_000 / self.rate))

    def is_full(self, now_ms: int) -> bool:
        """Whether it equals a new one."""
        return self._level_at(now_ms) >= self.rate * BURST_SECONDS

    def _level_at(self, now_ms: int) -> float:
        gained = self.rate * (now_ms - self._at_ms) / 1_000
        return min(self._level + gained, self.rate * BURST_SECONDS)


class QuotaKeeper:
    """The quotas of one broker, which limits only what it sees itself, as in Kafka."""

    __slots__ = ("_bounds", "_buckets", "_buckets_max", "_quotas")

    def __init__(self) -> None:
        self._quotas: Quotas = {}
        self._bounds: dict[str, dict[Who, float]] = {}
        self._buckets: dict[tuple[str, Who], Bucket] = {}
        self._buckets_max = BUCKETS_MIN

    def follow(self, quotas: Quotas) -> bool:
        """Apply these quotas from now on; returns whether there are any."""
        if quotas is not self._quotas:
            self._quotas = quotas
            self._bounds = {key: _bounds_of(quotas, key) for key in KEYS}
        return bool(quotas)

    def bound(self, key: str, user: str, client_id: str) -> tuple[float, Who] | None:
        """The client's limit in units per second, and the key of those who share it: the most
        specific quota applies, and a user's takes precedence over a client id's."""
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
        """Charge `amount`, in bytes or for requests in seconds of the broker's thread; returns the
        throttle time in milliseconds."""
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
