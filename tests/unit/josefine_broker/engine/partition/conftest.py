"""Fixtures of the partition tests."""

import pytest

from tests.unit.josefine_broker.api.replicas import Replicas


@pytest.fixture
def cluster() -> Replicas:
    cluster = Replicas(3)
    cluster.create()
    cluster.run()
    return cluster
