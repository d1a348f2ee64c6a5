"""Keys of tokens come from a file or over a way that nobody else can answer on."""

import pytest
from pydantic import ValidationError

from josefine_broker.config.oauthbearer import OauthbearerSection

MORE = {"issuer": "i", "audience": ["a", "b"]}


@pytest.mark.parametrize(
    "jwks", ["/etc/keys.json", "https://h/keys", "http://localhost:8/k", "http://[::1]:8/k"]
)
def test_keys_are_in_a_file_or_at_an_https_address_or_on_this_machine(jwks: str) -> None:
    found = OauthbearerSection(jwks=jwks, **MORE)

    assert (found.jwks, found.audience) == (jwks, ("a", "b"))


@pytest.mark.parametrize(
    "jwks", ["http://h/keys", "http://localhost.evil/k", "https://u@h/k", "https:///k", "", 5]
)
def test_keys_that_others_could_give_are_refused(jwks: object) -> None:
    with pytest.raises(ValidationError):
        OauthbearerSection(jwks=jwks, **MORE)


@pytest.mark.parametrize("missing", ["issuer", "audience"])
def test_keys_need_the_issuer_and_the_audience_of_the_tokens(missing: str) -> None:
    rest = {name: value for name, value in MORE.items() if name != missing}

    with pytest.raises(ValidationError, match=f"jwks needs {missing}"):
        OauthbearerSection(jwks="/k", **rest)
    assert OauthbearerSection(**rest).jwks is None
