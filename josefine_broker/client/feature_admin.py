"""Administration of feature levels (KIP-584): those finalized by the cluster, and those that all
running brokers support."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from josefine_broker.client.effects import CONTROLLER, Call, Operation
from josefine_broker.client.operations import answered_error, ask_each_broker, ask_until
from josefine_broker.client.session import Session
from josefine_broker.wire import apis
from josefine_broker.wire.entities import api_versions as v
from josefine_broker.wire.entities import update_features as u

UPGRADE, SAFE_DOWNGRADE = 1, 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """`level`: the finalized one, 0 if there is none. Every broker supports `lowest` to `highest`;
    if `lowest` is above `highest`, no level is supported by all."""

    name: str
    level: int
    lowest: int
    highest: int


def describe_features(session: Session, now_ms: int, deadline_ms: int) -> Operation[list[Feature]]:
    """Features sorted by name, as supported by the brokers that are registered now."""
    attempts = session.start(now_ms, deadline_ms, "describe features")
    found = yield from ask_each_broker(
        session,
        attempts,
        apis.API_VERSIONS,
        v.ApiVersionsRequest(),
        lambda answer: answered_error(answer.error_code, None),
    )
    answers = [answer for _, answer in found]
    newest = max(answers, key=lambda each: each.finalized_features_epoch)
    levels = {each.name: each.max_version_level for each in newest.finalized_features}
    ranges = [
        {each.name: (each.min_version, each.max_version) for each in answer.supported_features}
        for answer in answers
    ]
    names = sorted({name for each in ranges for name in each} | levels.keys())
    return [
        Feature(
            name=name,
            level=levels.get(name, 0),
            lowest=max(each.get(name, (0, 0))[0] for each in ranges),
            highest=min(each.get(name, (0, 0))[1] for each in ranges),
        )
        for name in names
    ]


def update_features(
    session: Session,
    levels: Mapping[str, int],
    upgrade_type: int,
    now_ms: int,
    deadline_ms: int,
    *,
    only_ask: bool = False,
) -> Operation[None]:
    """Finalize all of these levels or none. `only_ask`: only validate the request."""
    attempts = session.start(now_ms, deadline_ms, "update features", unknown_is_final=True)
    request = u.UpdateFeaturesRequest(
        timeout_ms=deadline_ms - now_ms,
        feature_updates=tuple(
            u.FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=upgrade_type)
            for name, level in levels.items()
        ),
        validate_only=only_ask,
    )
    call = Call(node=CONTROLLER, api_key=apis.UPDATE_FEATURES, request=request)
    yield from ask_until(attempts, call, lambda r: answered_error(r.error_code, r.error_message))
