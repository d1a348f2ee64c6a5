"""Commands at a real broker that get their addresses from a profile and from the brokers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.broker import BrokerProcess
from tests.support.cli import josefine


def test_the_admin_address_is_found_through_the_brokers_of_a_profile(
    broker: BrokerProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "josefine" / "config.toml"
    file.parent.mkdir()
    file.write_text(f'[profiles.here]\nbootstrap = "{broker.bootstrap}"\n')
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("JOSEFINE_PROFILE", "here")
    monkeypatch.chdir(tmp_path)

    created = josefine("", "topics", "create", "t")
    status = josefine("", "cluster", "status")
    by_environment = josefine(broker.bootstrap, "cluster", "partitions")
    monkeypatch.setenv("JOSEFINE_PROFILE", "")
    unnamed = josefine("127.0.0.1:1", "--profile", "here", "topics", "list")

    assert (created.code, created.err) == (0, "")
    assert (status.code, status.err) == (0, "")
    assert (by_environment.code, by_environment.err) == (0, "")
    assert " t " in by_environment.out
    assert " t " in unnamed.out
