"""UpdateFeatures (key 57, KIP-584): raises (or lowers) the finalized feature levels of the cluster.

All updates of a request or none (KIP-1022): one proposal carries them, and its refusal is the
result of each. A level is lowered only on explicit request, that of `josefine.version` never.
"""

from collections import Counter

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.context import Context, RequestInfo
from josefine_broker.engine.metadata.changes import FeatureLevel, SetFeatures
from josefine_broker.engine.metadata.features import check_level
from josefine_broker.engine.proposing import answer_when_settled, submit_change
from josefine_broker.wire.entities import update_features as e

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3


def handle(ctx: Context, info: RequestInfo, request: e.UpdateFeaturesRequest) -> object:
    """Finalize every requested level."""
    deadline_ms = ctx.clock.monotonic_ms() + request.timeout_ms
    times = Counter(each.feature for each in request.feature_updates)
    levels: list[FeatureLevel] = []
    for wanted in request.feature_updates:
        if times[wanted.feature] > 1:
            raise KafkaError(
                ErrorCode.invalid_request, f"'{wanted.feature}' is named more than once"
            )
        levels.append(_level(ctx, wanted, levels))
    changed = tuple(each for each in levels if each.level != each.previous)
    if request.validate_only or not changed:
        return _done(request)
    proposal = submit_change(ctx, SetFeatures(levels=changed), deadline_ms)

    def build() -> e.UpdateFeaturesResponse:
        return _done(request) if proposal.error is None else refuse(request, proposal.error)

    return answer_when_settled(ctx, [proposal], deadline_ms, build)


def refuse(request: e.UpdateFeaturesRequest, error: KafkaError) -> e.UpdateFeaturesResponse:
    """The answer when the whole request is refused: all updates fail together."""
    return e.UpdateFeaturesResponse(
        error_code=error.code,
        error_message=error.message or None,
        results=tuple(
            e.UpdatableFeatureResult(
                feature=each.feature, error_code=error.code, error_message=error.message or None
            )
            for each in request.feature_updates
        ),
    )


def _level(ctx: Context, wanted: e.FeatureUpdateKey, before: list[FeatureLevel]) -> FeatureLevel:
    """`before`: the levels that the same request sets before this one."""
    name, level = wanted.feature, wanted.max_version_level
    previous = ctx.image.features.get(name, 0)
    if wanted.upgrade_type not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        raise _bad(f"'{name}': no upgrades of type {wanted.upgrade_type}")
    change = FeatureLevel(name, previous, level)
    features = dict(ctx.image.features) | {each.name: each.level for each in before}
    check_level(ctx.image.brokers.values(), change, features)
    if level < previous and wanted.upgrade_type == UPGRADE:
        raise _bad(f"'{name}' is at {previous}: going down to {level} must be asked for as such")
    if level > previous and wanted.upgrade_type != UPGRADE:
        raise _bad(f"'{name}' is at {previous}: {level} is no downgrade")
    return change


def _bad(message: str) -> KafkaError:
    return KafkaError(ErrorCode.invalid_update_version, message)


def _done(request: e.UpdateFeaturesRequest) -> e.UpdateFeaturesResponse:
    return e.UpdateFeaturesResponse(
        results=tuple(
            e.UpdatableFeatureResult(feature=each.feature) for each in request.feature_updates
        )
    )
