"""AlterClientQuotas (key 49, KIP-546): sets and removes quotas of users and client ids.

An entity gets all of its changes or none; one change of the metadata carries those of all valid
entities.
"""

from collections import Counter
from math import isfinite

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.quotas import CLIENT_ID, DEFAULT, KEYS, REQUEST, TYPES, USER, QuotaEntity
from josefine_broker.engine.context import Context, RequestInfo
from josefine_broker.engine.metadata.acls import TEXT_CHARS_MAX
from josefine_broker.engine.metadata.changes import AlterQuotas, QuotaChange
from josefine_broker.engine.proposing import answer_when_settled, submit_change
from josefine_broker.wire.entities import alter_client_quotas as e

BYTE_RATE_MAX = 2.0**63
"""Kafka stores a rate in 64 bits and refuses more."""


def handle(ctx: Context, info: RequestInfo, request: e.AlterClientQuotasRequest) -> object:
    """Answered when the changes are in effect here; errors are per entity."""
    deadline_ms = ctx.clock.monotonic_ms() + ctx.settings.metadata_timeout_ms
    times = Counter(each.entity for each in request.entries)
    outcomes: list[tuple[QuotaChange, ...] | KafkaError] = []
    for entry in request.entries:
        try:
            if times[entry.entity] > 1:
                raise _bad("an entity is named more than once")
            outcomes.append(_changes(entry))
        except KafkaError as error:
            outcomes.append(error.without_frames())
    found = tuple(each for some in outcomes if not isinstance(some, KafkaError) for each in some)
    is_idle = request.validate_only or not found
    proposals = [] if is_idle else [submit_change(ctx, AlterQuotas(quotas=found), deadline_ms)]

    def build() -> e.AlterClientQuotasResponse:
        failed = next((each.error for each in proposals if each.error is not None), None)
        return e.AlterClientQuotasResponse(
            entries=tuple(
                _result(entry, each if isinstance(each, KafkaError) else failed)
                for entry, each in zip(request.entries, outcomes, strict=True)
            )
        )

    return answer_when_settled(ctx, proposals, deadline_ms, build)


def refuse(request: e.AlterClientQuotasRequest, error: KafkaError) -> e.AlterClientQuotasResponse:
    """The answer when the whole request is refused."""
    return e.AlterClientQuotasResponse(
        entries=tuple(_result(entry, error) for entry in request.entries)
    )


def _result(entry: e.QuotaEntry, error: KafkaError | None) -> e.AlteredQuotas:
    if error is None:
        return e.AlteredQuotas(entity=entry.entity)
    return e.AlteredQuotas(
        error_code=error.code, error_message=error.message or None, entity=entry.entity
    )


def _changes(entry: e.QuotaEntry) -> tuple[QuotaChange, ...]:
    """Raises KafkaError."""
    entity = _entity(entry.entity)
    for key, times in Counter(each.key for each in entry.ops).items():
        if key not in KEYS:
            raise _bad(f"there is no quota '{key}', only {', '.join(KEYS)}")
        if times > 1:
            raise _bad(f"'{key}' of {entity} is named more than once")
    return tuple(
        QuotaChange(entity, each.key, None if each.remove else _value(each.key, each.value))
        for each in entry.ops
    )


def _entity(parts: tuple[e.QuotaPart, ...]) -> QuotaEntity:
    found: dict[str, str] = {}
    for part in parts:
        if part.entity_type not in TYPES:
            raise _bad(f"quotas are of {' and '.join(TYPES)}, not of '{part.entity_type}'")
        if part.entity_type in found:
            raise _bad(f"type '{part.entity_type}' is named more than once")
        if part.entity_name == "":
            raise _bad(f"the name of a {part.entity_type} is not empty; the default has none")
        if len(part.entity_name or "") > TEXT_CHARS_MAX:
            raise _bad(f"the name of a {part.entity_type} has {TEXT_CHARS_MAX} characters at most")
        found[part.entity_type] = part.entity_name or DEFAULT
    if not found:
        raise _bad(f"a quota is of a {' or a '.join(TYPES)}")
    return QuotaEntity(found.get(USER), found.get(CLIENT_ID))


def _value(key: str, value: float) -> float:
    if not isfinite(value) or value <= 0:
        raise _bad(f"'{key}' is more than 0, not {value:g}")
    if key != REQUEST and (value != int(value) or value > BYTE_RATE_MAX):
        raise _bad(f"'{key}' is a whole number of bytes a second below 2^63, not {value:g}")
    return value


def _bad(message: str) -> KafkaError:
    return KafkaError(ErrorCode.invalid_request, message)
