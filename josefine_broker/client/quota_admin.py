"""Administration of client quotas (KIP-546)."""

from __future__ import annotations

from collections.abc import Mapping

from josefine_broker.base.quotas import DEFAULT, QuotaEntity
from josefine_broker.client import effects
from josefine_broker.client.effects import ANY_BROKER, Call
from josefine_broker.client.operations import answered_error, ask_until
from josefine_broker.client.session import Session
from josefine_broker.wire import apis
from josefine_broker.wire.entities import alter_client_quotas as a
from josefine_broker.wire.entities import describe_client_quotas as d


def describe_quotas(
    session: Session, now_ms: int, deadline_ms: int
) -> effects.Operation[dict[QuotaEntity, dict[str, float]]]:
    """Quotas of every user and client id that has any: key → bound."""
    attempts = session.start(now_ms, deadline_ms, "describe quotas")
    request = d.DescribeClientQuotasRequest(components=(), strict=False)
    call = Call(node=ANY_BROKER, api_key=apis.DESCRIBE_CLIENT_QUOTAS, request=request)
    response, _ = yield from ask_until(
        attempts, call, lambda found: answered_error(found.error_code, found.error_message)
    )
    return {
        _entity(entry.entity): {each.key: each.value for each in entry.values}
        for entry in response.entries or ()
    }


def alter_quotas(
    session: Session,
    entity: QuotaEntity,
    bounds: Mapping[str, float | None],
    now_ms: int,
    deadline_ms: int,
) -> effects.Operation[None]:
    """Set these quotas of the entity; None removes one."""
    attempts = session.start(now_ms, deadline_ms, "alter quotas")
    entry = a.QuotaEntry(
        entity=tuple(
            a.QuotaPart(entity_type=kind, entity_name=name or None) for kind, name in entity.parts
        ),
        ops=tuple(
            a.QuotaOp(key=key, value=value or 0.0, remove=value is None)
            for key, value in bounds.items()
        ),
    )
    request = a.AlterClientQuotasRequest(entries=(entry,), validate_only=False)
    call = Call(node=ANY_BROKER, api_key=apis.ALTER_CLIENT_QUOTAS, request=request)
    yield from ask_until(
        attempts,
        call,
        lambda answer: answered_error(
            answer.entries[0].error_code, answer.entries[0].error_message
        ),
    )


def _entity(parts: tuple[d.QuotaPart, ...]) -> QuotaEntity:
    names = {each.entity_type: each.entity_name or DEFAULT for each in parts}
    return QuotaEntity(names.get("user"), names.get("client-id"))
