"""ListTransactions (key 66) in the one shape that handlers see: version 2."""

from dataclasses import dataclass

from josefine_broker.base.errors import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class ListTransactionsRequest:
    """Ask a broker for the transactional ids that it coordinates; an empty filter is none."""

    state_filters: tuple[str, ...] = ()
    producer_id_filters: tuple[int, ...] = ()
    duration_filter: int = -1  # since version 1
    transactional_id_pattern: str | None = None  # since version 2


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionState:
    """One transactional id."""

    transactional_id: str
    producer_id: int
    transaction_state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ListTransactionsResponse:
    """Those that pass the filters."""

    throttle_time_ms: int = 0
    error_code: ErrorCode = ErrorCode.none
    unknown_state_filters: tuple[str, ...] = ()
    transaction_states: tuple[TransactionState, ...]
