"""The file by which commands reach a protected broker."""

from __future__ import annotations

from pathlib import Path

import pytest

from josefine_cli.base.client_config import configured_security, http_headers
from josefine_cli.base.errors import CLIENT_CONFIG, UsageError


def written(tmp_path: Path, text: str) -> dict[str, str]:
    path = tmp_path / "client.properties"
    path.write_text(text)
    return {CLIENT_CONFIG: str(path)}


def test_settings_are_read_with_comments_and_secrets_that_are_elsewhere(tmp_path: Path) -> None:
    env = written(
        tmp_path,
        "# how we reach it\n\nsecurity.protocol = SSL\nssl.ca.location=/ca.pem\n"
        "ssl.key.password=env:WORD\n",
    )

    security = configured_security({**env, "WORD": "hunter2"})

    assert (security.protocol.value, security.ca) == ("SSL", "/ca.pem")
    assert security.key_password == "hunter2"


def test_no_file_is_plaintext() -> None:
    assert configured_security({}).protocol.value == "PLAINTEXT"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("security.protocol SSL", "line 1: expected name=value"),
        ("\nssl.ca.locaton=/x", "line 2: unknown setting 'ssl.ca.locaton'"),
        ("security.protocol=SSL\nsecurity.protocol=SSL", "line 2: security.protocol is set twice"),
        ("security.protocol=SASL", "security.protocol: 'SASL' is not one of"),
        ("security.protocol=SSL\nssl.key.password=env:NONE", "env:NONE: no such variable"),
    ],
)
def test_wrong_line_is_one_sentence_with_the_file(tmp_path: Path, text: str, words: str) -> None:
    env = written(tmp_path, text)

    with pytest.raises(UsageError) as caught:
        configured_security(env)

    assert str(caught.value).startswith(f"{env[CLIENT_CONFIG]}: ")
    assert words in str(caught.value)


def test_missing_file_is_told_with_the_variable(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot read .*none \(JOSEFINE_CLIENT_CONFIG\): no such"):
        configured_security({CLIENT_CONFIG: str(tmp_path / "none")})


@pytest.mark.parametrize(
    ("url", "is_told"),
    [
        ("https://b1:9644", True),
        ("http://127.0.0.1:9644", True),
        ("http://localhost:9644", True),
        ("http://b1:9644", False),
        ("http://192.0.2.1:9644", False),
    ],
)
def test_a_password_goes_to_pages_over_tls_or_on_this_machine_alone(
    tmp_path: Path, url: str, is_told: bool
) -> None:
    env = written(
        tmp_path,
        "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.username=a\nsasl.password=b:c\n",
    )

    wanted = {"Authorization": "Basic YTpiOmM="} if is_told else {}
    assert http_headers(url, env) == wanted
    assert http_headers(url, {}) == {}


def test_a_token_goes_to_pages_as_it_is_now(tmp_path: Path) -> None:
    token = tmp_path / "token"
    env = written(
        tmp_path,
        "security.protocol=SASL_SSL\nsasl.mechanism=OAUTHBEARER\n"
        f"sasl.oauthbearer.token=file:{token}\n",
    )

    with pytest.raises(UsageError, match="no such file"):
        http_headers("https://b1:9644", env)
    token.write_text("x.y.z\n")

    assert http_headers("https://b1:9644", env) == {"Authorization": "Bearer x.y.z"}
