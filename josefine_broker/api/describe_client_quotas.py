"""DescribeClientQuotas (key 48, KIP-546): the quotas of users and client ids that match a filter.

Without components it matches all; a strict filter excludes entities with any other component.
"""

from collections import Counter

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.quotas import DEFAULT, TYPES, QuotaEntity
from josefine_broker.engine.context import Context, RequestInfo
from josefine_broker.wire.entities import describe_client_quotas as e

IP = "ip"
"""Quotas of connections by address (KIP-612) do not exist here, so none matches."""


def handle(
    ctx: Context, info: RequestInfo, request: e.DescribeClientQuotasRequest
) -> e.DescribeClientQuotasResponse:
    """Raises KafkaError."""
    _check(request.components)
    return e.DescribeClientQuotasResponse(
        entries=tuple(
            e.QuotaEntry(
                entity=tuple(
                    e.QuotaPart(entity_type=kind, entity_name=name or None)
                    for kind, name in entity.parts
                ),
                values=tuple(
                    e.QuotaValue(key=key, value=value) for key, value in sorted(bounds.items())
                ),
            )
            for entity, bounds in sorted(ctx.image.quotas.items(), key=lambda each: each[0].parts)
            if _fits(request, entity)
        )
    )


def refuse(
    request: e.DescribeClientQuotasRequest, error: KafkaError
) -> e.DescribeClientQuotasResponse:
    """The answer when the whole request is refused."""
    return e.DescribeClientQuotasResponse(
        error_code=error.code, error_message=error.message or None, entries=None
    )


def _check(components: tuple[e.QuotaComponent, ...]) -> None:
    for kind, times in Counter(each.entity_type for each in components).items():
        if kind not in (*TYPES, IP):
            raise _bad(f"quotas are of {' and '.join(TYPES)}, not of '{kind}'")
        if times > 1:
            raise _bad(f"type '{kind}' is named more than once")
    for each in components:
        if each.match_type not in (e.EXACT, e.DEFAULT_NAME, e.ANY_NAME):
            raise _bad(f"there is no match of type {each.match_type}")
        if each.match_type == e.EXACT and each.match is None:
            raise _bad(f"an exact match of '{each.entity_type}' needs a name")


def _fits(request: e.DescribeClientQuotasRequest, entity: QuotaEntity) -> bool:
    parts = dict(entity.parts)
    if request.strict and len(parts) != len(request.components):
        return False
    return all(_has(parts, each) for each in request.components)


def _has(parts: dict[str, str], wanted: e.QuotaComponent) -> bool:
    name = parts.get(wanted.entity_type)
    if name is None or wanted.match_type == e.ANY_NAME:
        return name is not None
    if wanted.match_type == e.DEFAULT_NAME:
        return name == DEFAULT
    return name == wanted.match != DEFAULT  # no entity has an empty name


def _bad(message: str) -> KafkaError:
    return KafkaError(ErrorCode.invalid_request, message)
