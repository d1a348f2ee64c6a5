"""The file of users: what it may be, and what is said of it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from josefine_broker.host.net.users import UsersError, UsersFile, parse_users


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "users"
    path.write_text(text)
    path.chmod(0o600)
    return path


def test_names_and_passwords_are_read_with_whatever_a_password_has() -> None:
    assert parse_users("# ours\n\nalice=a=b #c \nbob = x\n") == {"alice": "a=b #c ", "bob": " x"}


@pytest.mark.parametrize("text", ["hunter2", "=hunter2", "hunter2=", "a=hunter2"])
def test_wrong_line_is_told_by_its_number_alone(tmp_path: Path, text: str) -> None:
    with pytest.raises(UsersError) as caught:
        UsersFile(written(tmp_path, f"a=1\n{text}"), b"s", 4096)

    assert f"sasl.users: {tmp_path}/users: line 2 " in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, "a=1")
    path.chmod(0o640)

    with pytest.raises(UsersError, match="is open to others: chmod 600 it"):
        UsersFile(path, b"s", 4096)


def test_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsersError, match=r"^sasl\.users: .*none: no such file"):
        UsersFile(tmp_path / "none", b"s", 4096)


def test_changed_users_count_and_a_broken_change_does_not(tmp_path: Path) -> None:
    path = written(tmp_path, "alice=1")
    file = UsersFile(path, b"s", 4096)

    path.write_text("nonsense, and longer")
    file.reload_changed()
    assert file.users.has("alice", "1")

    path.write_text("alice=22")
    os.utime(path, (1, 1))
    file.reload_changed()
    assert not file.users.has("alice", "1")
    assert file.users.has("alice", "22")
