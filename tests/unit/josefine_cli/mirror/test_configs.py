"""Which configs a mirror takes over, and what its commands refuse."""

from typing import Any

from josefine_broker.client.admin import ConfigEntry
from josefine_cli.mirror.access import acls_of
from josefine_cli.mirror.command import app
from josefine_cli.mirror.configs import changes, served
from josefine_cli.mirror.copier import SESSION_PREFIX
from josefine_cli.mirror.cutover import matching_groups
from josefine_cli.mirror.sides import new_session
from tests.support.cli import josefine


def entry(name: str, value: str, *, is_default: bool = False) -> ConfigEntry:
    return ConfigEntry(
        name=name, value=value, is_default=is_default, read_only=False, sensitive=False,
        documentation=None,
    )  # fmt: skip


def test_configs_that_are_set_and_served_are_taken_over() -> None:
    given = [
        entry("retention.ms", "7"),
        entry("segment.bytes", "9999", is_default=True),
        entry("josefine.table.location", "/lake"),
        entry("confluent.tier.enable", "true"),
    ]
    found = served({each.name: each for each in given})
    assert found == ({"retention.ms": "7"}, ["confluent.tier.enable"])


def test_configs_that_the_source_has_no_longer_are_reset() -> None:
    here = [
        entry("retention.ms", "7"),
        entry("segment.bytes", "4096"),
        entry("josefine.mirror.session", "one"),
        entry("cleanup.policy", "delete", is_default=True),
    ]
    wanted = {"retention.ms": "8", "cleanup.policy": "delete"}
    assert changes(wanted, {each.name: each for each in here}) == {
        "retention.ms": "8", "cleanup.policy": "delete", "segment.bytes": None,
    }  # fmt: skip


def test_sessions_differ() -> None:
    assert new_session() != new_session()
    assert SESSION_PREFIX == "josefine-mirror:"
    assert app.registered_commands


def test_cut_over_names_a_source_or_does_without() -> None:
    done = josefine("127.0.0.1:1", "mirror", "cutover", "--topic", "t", "--from", "a:1", "--as-is")
    assert done.code == 2
    assert "--as-is alone" in done.err
    wrong = josefine("127.0.0.1:1", "mirror", "cutover", "--topic", "t", "--timeout", "soon")
    assert wrong.code == 2


def test_no_pattern_asks_no_broker() -> None:
    nobody: Any = None
    assert matching_groups(nobody, ()) == []
    assert acls_of(nobody, (), ()) == []
