"""Profiles: named clusters in `$XDG_CONFIG_HOME/josefine/config.toml` (`~/.config/josefine`).

A profile has the brokers' addresses, the admin address and the settings of Kafka's clients; a
secret is a reference (`env:NAME`, `file:PATH`), never the secret. Precedence: a flag, then a
variable of the environment, then the profile, then the default. `--profile` is a flag: its values
win over the environment's. A profile's login is sent to its own brokers alone.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import urlsplit

from josefine_cli.base.errors import CLIENT_CONFIG, UsageError

BOOTSTRAP = "JOSEFINE_BOOTSTRAP"
PROFILE = "JOSEFINE_PROFILE"
TOP_KEYS = ("profile", "profiles")
KEYS = ("bootstrap", "admin", "client_config")
REFERENCE = re.compile(r"(env|file):.+")
REFERENCED = ("ssl.key.password", "sasl.password", "sasl.oauthbearer.token")
"""Settings that are secrets: the file has only where they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """One named cluster. `client_config`: a file with the settings, in place of `settings`."""

    name: str
    file: Path
    bootstrap: str | None = None
    admin: str | None = None
    client_config: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)

    def owns(self, address: str) -> bool:
        """Whether an address, brokers' or a URL, is on hosts of this cluster only. Its login is
        sent nowhere else. A profile without addresses is for any."""
        own = {host for each in (self.bootstrap, self.admin) if each for host in _hosts(each)}
        return self.bootstrap is None or _hosts(address) <= own


def _hosts(address: str) -> set[str]:
    if "://" in address:
        return {urlsplit(address).hostname or ""}
    return {each.strip().rpartition(":")[0].strip("[]").lower() for each in address.split(",")}


def config_file(env: Mapping[str, str]) -> Path:
    """The file of the profiles, which need not exist."""
    home = env.get("XDG_CONFIG_HOME", "")
    # The specification ignores a relative path.
    folder = Path(home) if os.path.isabs(home) else Path(env.get("HOME", "~")) / ".config"
    return folder.expanduser() / "josefine" / "config.toml"


def profile_of(env: Mapping[str, str]) -> Profile | None:
    """The profile in use; None without one. Raises UsageError for a bad file, unknown name."""
    file, wanted = config_file(env), env.get(PROFILE)
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        if not wanted:
            return None
        raise UsageError(f"no profile '{wanted}': there is no file {file}") from None
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8 text"
        raise UsageError(f"cannot read {file}: {reason.lower()}") from None
    profiles, default = parse_profiles(text, file)
    name = wanted or default
    if name is None:
        return None
    if name not in profiles:
        said = "" if wanted else f"{file}: "
        raise UsageError(f"{said}no profile '{name}'{_hint(name, profiles, f' in {file}')}")
    return profiles[name]


def parse_profiles(text: str, file: Path) -> tuple[dict[str, Profile], str | None]:
    """(name → profile, the name of the default one). Raises UsageError with the key at fault, never
    with a value."""
    import tomllib

    try:
        top = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{file}: not valid TOML: {error}") from None
    for key in top:
        if key not in TOP_KEYS:
            _refuse(file, key, f"unknown key{_hint(key, TOP_KEYS)}")
    default, found = top.get("profile"), top.get("profiles", {})
    if default is not None and not isinstance(default, str):
        _refuse(file, "profile", "expected the name of a profile")
    if not isinstance(found, dict) or not all(isinstance(each, dict) for each in found.values()):
        _refuse(file, "profiles", "expected tables like [profiles.prod]")
    return {name: _profile(name, values, file) for name, values in found.items()}, default


def _profile(name: str, values: Mapping[str, Any], file: Path) -> Profile:
    from josefine_broker.client.security import NAMES

    where = f"profiles.{name}"
    own: dict[str, str] = {}
    settings: dict[str, str] = {}
    for key, value in _flat(values):
        if key not in KEYS and key not in NAMES:
            _refuse(file, f"{where}.{key}", f"unknown key{_hint(key, (*KEYS, *sorted(NAMES)))}")
        if not isinstance(value, str):
            _refuse(file, f"{where}.{key}", "expected a text in quotes")
        if key == "sasl.jaas.config":
            _refuse(file, f"{where}.{key}", "has a password in it: use sasl.username and "
                    "sasl.password")  # fmt: skip
        if key in REFERENCED and not REFERENCE.fullmatch(value):
            _refuse(file, f"{where}.{key}", "expected where it is, env:NAME or file:PATH, not the"
                    " secret itself")  # fmt: skip
        (own if key in KEYS else settings)[key] = _expanded(key, value)
    if settings and "client_config" in own:
        first = next(iter(settings))
        _refuse(file, f"{where}.{first}", "the file of client_config has these settings: give one")
    return Profile(name=name, file=file, settings=settings, **own)


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """TOML reads `sasl.password = …` as nested tables."""
    for key, value in values.items():
        if isinstance(value, dict) and value:
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _expanded(key: str, value: str) -> str:
    """A path with the user's home for `~`."""
    if key.endswith(".location") or key == "client_config":
        return os.path.expanduser(value)
    if key in REFERENCED and value.startswith("file:"):
        return f"file:{os.path.expanduser(value.removeprefix('file:'))}"
    if key == "admin" and "://" not in value:
        return f"http://{value}"
    return value


def _refuse(file: Path, key: str, what: str) -> NoReturn:
    raise UsageError(f"{file}: {key}: {what}")


def _hint(name: str, known: Iterable[str], among: str = "") -> str:
    near = difflib.get_close_matches(name, [*known], n=1)
    if near:
        return f"{among}; did you mean '{near[0]}'?"
    return f"{among}; expected one of: {', '.join(known) or 'none is there'}"


def use_profile(name: str, env: dict[str, str] | os._Environ[str]) -> None:
    """Take a profile by its flag: its values win over those of the environment. Raises
    UsageError."""
    env[PROFILE] = name
    profile = profile_of(env)
    if profile is not None and profile.bootstrap is not None:
        env[BOOTSTRAP] = profile.bootstrap
        env.pop(CLIENT_CONFIG, None)


def profile_bootstrap(env: Mapping[str, str]) -> str | None:
    """The brokers of the environment or of the profile. Raises UsageError."""
    if env.get(BOOTSTRAP):
        return env[BOOTSTRAP]
    profile = profile_of(env)
    return None if profile is None else profile.bootstrap


def profile_admin(env: Mapping[str, str]) -> str | None:
    """The admin address of the profile, if its brokers are those in use. Raises UsageError."""
    profile = profile_of(env)
    if profile is None or profile.admin is None:
        return None
    brokers = env.get(BOOTSTRAP)
    return profile.admin if not brokers or profile.owns(brokers) else None
