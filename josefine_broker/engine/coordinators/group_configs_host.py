"""What single groups are configured to do, from the metadata image and the broker's file."""

from josefine_broker.engine.context import Context
from josefine_broker.engine.groups.group_configs import GroupConfig, resolve
from josefine_broker.engine.metadata.features import SHARE_VERSION


def config_of(ctx: Context, group_id: str) -> GroupConfig:
    """What the group does now. A change counts for the next request of each member."""
    return resolve(
        ctx.image.group_configs.get(group_id, ()),
        ctx.settings.offsets.groups,
        serves_dead_letters=ctx.image.features.get(SHARE_VERSION, 0) >= 2,
    )


def group_configs_changed(ctx: Context) -> None:
    """To be called when the image has other configurations of groups: sessions that a heartbeat
    renews have the new timeout from then on."""
    coordinator = ctx.clients.groups.coordinator
    found = {group_id: config_of(ctx, group_id) for group_id in ctx.image.group_configs}
    coordinator.consumers.session_timeouts = {
        group_id: each.consumer_session_ms for group_id, each in found.items()
    }
    coordinator.shares.session_timeouts = {
        group_id: each.share_session_ms for group_id, each in found.items()
    }
