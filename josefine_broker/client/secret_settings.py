"""Client settings whose secret is stored elsewhere (`sasl.password=file:PATH`, `env:NAME`)."""

import re
from collections.abc import Mapping

from josefine_broker.base.security import parse_secret_place
from josefine_broker.client.security import SECRETS


def read_secrets(settings: Mapping[str, str], env: Mapping[str, str]) -> dict[str, str]:
    """The settings with the secrets filled in. Raises ValueError with the setting and the problem,
    never a secret's text."""
    read = dict(settings)
    for name in SECRETS.intersection(settings):
        if re.match(r"(file|env):", settings[name]):
            try:
                read[name] = parse_secret_place(settings[name]).read(env)
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from None
    return read
