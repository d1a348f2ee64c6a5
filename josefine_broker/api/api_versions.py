"""ApiVersions (key 18): the APIs and versions that this broker serves, from the adjacent table.

KIP-511: an unknown version is answered UNSUPPORTED_VERSION with a v0 body that lists the versions
of every key, so that the client can retry. KIP-584: the features that this code supports, and the
levels that the cluster has finalized. InitProducerId 6 (KIP-939) is listed where two-phase commits
are enabled: Kafka does not list it yet. KIP-1242: a client that names the cluster and the broker
that it means (since v5) is sent back to its bootstrap servers if it reached another one.
"""

from collections.abc import Iterable
from dataclasses import replace

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.context import Context, RequestInfo
from josefine_broker.engine.metadata.features import SUPPORTED
from josefine_broker.wire.apis import (
    GET_TELEMETRY_SUBSCRIPTIONS,
    INIT_PRODUCER_ID,
    PUSH_TELEMETRY,
    ApiSpec,
)
from josefine_broker.wire.entities import api_versions as e

_SUPPORTED = tuple(
    e.SupportedFeatureKey(name=name, min_version=low, max_version=high)
    for name, low, high in SUPPORTED
)
ZERO_SINCE = 4
"""Lower versions must not list a feature that may be at level 0 (KIP-1022)."""
_SUPPORTED_ABOVE_0 = tuple(each for each in _SUPPORTED if each.min_version)


CLIENT_METRICS = (GET_TELEMETRY_SUBSCRIPTIONS, PUSH_TELEMETRY)
"""Listed where clients are asked for metrics, as by Kafka: a client that sees them sends them."""
ANY_NODE = -1
"""The node id of a client that does not know the broker yet."""
TWO_PHASE_SINCE = 6
"""Version of InitProducerId. Tools do not recognize a broker that lists more than any Kafka
does."""


class ApiVersionsHandler:
    """Holds the constant part of the answer."""

    __slots__ = ("_keys",)

    def __init__(self, served: Iterable[ApiSpec]) -> None:
        rows = [
            e.ApiVersion(
                api_key=spec.key, min_version=spec.min_version, max_version=spec.max_version
            )
            for spec in served
        ]
        single = [
            replace(each, max_version=TWO_PHASE_SINCE - 1)
            if each.api_key == INIT_PRODUCER_ID
            else each
            for each in rows
        ]
        self._keys = {
            (has_two_phase, asks_clients): tuple(
                each
                for each in (rows if has_two_phase else single)
                if asks_clients or each.api_key not in CLIENT_METRICS
            )
            for has_two_phase in (False, True)
            for asks_clients in (False, True)
        }
        """By whether two-phase commits are enabled, and clients are asked for metrics."""

    def handle(
        self, ctx: Context, info: RequestInfo, request: e.ApiVersionsRequest
    ) -> e.ApiVersionsResponse:
        image = ctx.image
        _require_the_meant_broker(ctx, request)
        knows_zero = info.header.api_version >= ZERO_SINCE
        supported = _SUPPORTED if knows_zero else _SUPPORTED_ABOVE_0
        has_two_phase = ctx.settings.offsets.transactions.two_phase_enable
        asks_clients = bool(ctx.settings.client_metrics.prefixes)
        return e.ApiVersionsResponse(
            api_keys=self._keys[has_two_phase, asks_clients],
            supported_features=supported,
            finalized_features_epoch=image.features_epoch,
            finalized_features=tuple(
                e.FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
                for name, level in sorted(image.features.items())
            ),
        )

    def refuse(self, request: object, error: KafkaError) -> e.ApiVersionsResponse:
        return e.ApiVersionsResponse(error_code=error.code, api_keys=self._keys[False, False])

    def unsupported_version(self) -> e.ApiVersionsResponse:
        """Encoded as v0, whatever version was requested."""
        return e.ApiVersionsResponse(
            error_code=ErrorCode.unsupported_version, api_keys=self._keys[False, False]
        )


def _require_the_meant_broker(ctx: Context, request: e.ApiVersionsRequest) -> None:
    """A client names both or neither, which is what a bootstrap connection does."""
    names_cluster, names_node = request.cluster_id is not None, request.node_id != ANY_NODE
    if names_cluster != names_node:
        raise KafkaError(ErrorCode.invalid_request, "expected a cluster id with a node id")
    here = (ctx.image.cluster_id, ctx.broker_id)
    if names_cluster and (request.cluster_id, request.node_id) != here:
        raise KafkaError(
            ErrorCode.rebootstrap_required,
            f"this is broker {ctx.broker_id} of the cluster {ctx.image.cluster_id}",
        )
