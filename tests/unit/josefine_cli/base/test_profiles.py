"""Profiles: where a command's brokers and login come from, and what is wrong with the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from josefine_cli.base.client_config import configured_security, http_headers
from josefine_cli.base.errors import CLIENT_CONFIG, EXIT_USAGE, UsageError
from josefine_cli.base.profiles import (
    BOOTSTRAP,
    PROFILE,
    config_file,
    profile_admin,
    profile_bootstrap,
    profile_of,
    use_profile,
)
from josefine_cli.main import run

FILE = """\
profile = "dev"

[profiles.dev]
bootstrap = "localhost:9092"

[profiles.prod]
bootstrap = "k1:9093,k2:9093"
admin = "https://k1:9644"
security.protocol = "SASL_SSL"
sasl.mechanism = "SCRAM-SHA-256"
sasl.username = "ada"
sasl.password = "env:PROD_WORD"
"""
SECRET = "hunter2"


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    file = tmp_path / "josefine" / "config.toml"
    file.parent.mkdir()
    file.write_text(FILE)
    return {"XDG_CONFIG_HOME": str(tmp_path), "PROD_WORD": SECRET}


def test_the_file_is_in_the_folder_of_the_xdg_specification() -> None:
    home = {"HOME": "/home/ada"}

    assert config_file(home) == Path("/home/ada/.config/josefine/config.toml")
    assert config_file({**home, "XDG_CONFIG_HOME": "/x"}) == Path("/x/josefine/config.toml")
    assert config_file({**home, "XDG_CONFIG_HOME": "x"}) == config_file(home)


def test_a_flag_wins_over_the_environment_the_environment_over_the_profile(
    env: dict[str, str],
) -> None:
    assert profile_bootstrap(env) == "localhost:9092"
    assert profile_bootstrap({**env, PROFILE: "prod"}) == "k1:9093,k2:9093"
    assert profile_bootstrap({**env, PROFILE: "prod", BOOTSTRAP: "b:1"}) == "b:1"

    flagged = {**env, PROFILE: "dev", BOOTSTRAP: "b:1", CLIENT_CONFIG: "/other"}
    use_profile("prod", flagged)
    assert profile_bootstrap(flagged) == "k1:9093,k2:9093"
    assert configured_security(flagged).username == "ada"


def test_no_file_is_no_profile_and_a_named_one_is_an_error(tmp_path: Path) -> None:
    env = {"XDG_CONFIG_HOME": str(tmp_path)}

    assert profile_of(env) is None
    with pytest.raises(UsageError, match=r"no profile 'prod': there is no file .*config\.toml"):
        profile_of({**env, PROFILE: "prod"})


def test_the_password_is_read_where_the_file_names_it(env: dict[str, str], tmp_path: Path) -> None:
    env[PROFILE] = "prod"
    (tmp_path / "word").write_text("from a file\n")

    assert configured_security(env).password == SECRET
    config_file(env).write_text(FILE.replace("env:PROD_WORD", f"file:{tmp_path}/word"))
    assert configured_security(env).password == "from a file"


@pytest.mark.parametrize(
    ("address", "sent"),
    [
        ("k1:9093,k2:9093", True),
        ("k2:9093", True),
        ("https://k2:9644", True),
        ("evil:9093", False),
        ("k1:9093,evil:9093", False),
        ("https://evil:9644", False),
    ],
)
def test_the_login_is_sent_to_the_brokers_of_the_profile_alone(
    env: dict[str, str], address: str, sent: bool
) -> None:
    env[PROFILE] = "prod"

    assert (configured_security(env, address).password == SECRET) is sent
    assert bool(http_headers(address, env) if "://" in address else sent) is sent
    assert (profile_admin({**env, BOOTSTRAP: address.removeprefix("https://")}) is not None) is sent


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("bootstrap = \"k1", "bootstap = \"k1", "profiles.prod.bootstap: unknown key; did you mean"
         " 'bootstrap'?"),
        ("sasl.username", "sasl.user", "profiles.prod.sasl.user: unknown key; did you mean"),
        ("env:PROD_WORD", SECRET, "profiles.prod.sasl.password: expected where it is, env:NAME or"),
        ('"SASL_SSL"', "7", "profiles.prod.security.protocol: expected a text in quotes"),
        ("[profiles.dev]", "[profiles.dev", "not valid TOML: "),
        ('profile = "dev"', 'profil = "dev"', "profil: unknown key; did you mean 'profile'?"),
        ('profile = "dev"', 'profile = "dve"', "no profile 'dve' in "),
        ("security.protocol", 'client_config = "/f"\nsecurity.protocol',
         "profiles.prod.security.protocol: the file of client_config has these settings"),
        ("sasl.password = \"env:PROD_WORD\"", f"sasl.jaas.config = \"{SECRET}\"",
         "profiles.prod.sasl.jaas.config: has a password in it"),
    ],
)  # fmt: skip
def test_a_bad_file_is_one_sentence_with_the_key_and_without_a_secret(
    env: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    before: str,
    after: str,
    words: str,
) -> None:
    assert before in FILE
    config_file(env).write_text(FILE.replace(before, after))
    monkeypatch.delenv(BOOTSTRAP, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", env["XDG_CONFIG_HOME"])

    code = run(["topics", "list"])

    said = capsys.readouterr().err
    assert code == EXIT_USAGE
    assert said.startswith(f"error: {config_file(env)}: {words}")
    assert said.count("\n") == 1
    assert SECRET not in said


def test_an_unknown_profile_names_the_nearest_one(
    env: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in {**env, PROFILE: ""}.items():
        monkeypatch.setenv(name, value)

    assert run(["--profile", "prd", "topics", "list"]) == EXIT_USAGE
    said = capsys.readouterr().err
    assert said == f"error: no profile 'prd' in {config_file(env)}; did you mean 'prod'?\n"


def test_a_profile_in_print_has_no_settings(env: dict[str, str]) -> None:
    config_file(env).write_text(FILE)

    assert "PROD_WORD" not in repr(profile_of({**env, PROFILE: "prod"}))
