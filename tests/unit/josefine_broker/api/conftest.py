"""Fixtures of the API tests."""

import pytest

from tests.unit.josefine_broker.api.world import World, world_of


@pytest.fixture
def world() -> World:
    """One broker with the topic `orders`, of one partition."""
    return world_of()
