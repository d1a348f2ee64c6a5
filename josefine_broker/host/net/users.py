"""The users file: `name=password` per line, for the listeners with SASL. Reloaded when it changes;
an invalid file leaves the users as they were, and is logged with file and line, never with the
content.
"""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Callable
from pathlib import Path

from josefine_broker.engine.security.sasl import Stored, Users, no_stored
from josefine_broker.host.net.file_stamp import look_at

log = logging.getLogger(__name__)


class UsersError(ValueError):
    """The file cannot be used; the message is one sentence for the user."""


class UsersFile:
    """The users of one file. Used on the event loop only."""

    def __init__(
        self,
        path: Path,
        salting: bytes,
        iterations: int,
        stored: Callable[[], Stored] = no_stored,
    ) -> None:
        """`salting`: secret random bytes. Raises UsersError."""
        self._path = path
        self._stored = stored
        self._salting = salting
        self._iterations = iterations
        self._seen = look_at(self._path)
        self.users = self._load()

    def reload_changed(self) -> None:
        """Reload the file if it changed; a duty of the ticker."""
        seen = look_at(self._path)
        if seen == self._seen:
            return
        self._seen = seen
        try:
            self.users = self._load()
        except UsersError as error:
            log.warning("users changed and cannot be used", extra={"reason": str(error)})
            return
        log.info("users reloaded", extra={"file": str(self._path)})

    def _load(self) -> Users:
        try:
            mode = os.stat(self._path).st_mode
            text = self._path.read_text("utf-8")
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise UsersError(f"sasl.users: {self._path}: {reason}") from None
        except UnicodeDecodeError:
            raise UsersError(f"sasl.users: {self._path} is not UTF-8") from None
        if mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise UsersError(f"sasl.users: {self._path} is open to others: chmod 600 it")
        try:
            return Users(parse_users(text), self._salting, self._iterations, self._stored)
        except ValueError as error:
            raise UsersError(f"sasl.users: {self._path}: {error}") from None


def parse_users(text: str) -> dict[str, str]:
    """Name → password; empty lines and those that start with # are skipped. Raises ValueError with
    only the line's number."""
    users: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        name, equals, password = line.partition("=")
        name = name.strip()
        if not equals or not name or not password:
            raise ValueError(f"line {number} is not name=password")
        if name in users:
            raise ValueError(f"line {number} repeats a user name")
        users[name] = password
    return users
