"""The Azure settings of a path, from ABFS's settings and the variables of Azure's tools."""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import ClassVar

import pytest

from pipelines.storage.azure import arrow_arguments, azure_location, delta_options
from pipelines.storage.folders import Folders
from pipelines.storage.location import StorageError, why_failed

HOST = "acme.dfs.core.windows.net"
PATH = f"abfss://lake@{HOST}/a//t/"
AZURE = "spark.hadoop.fs.azure."
OAUTH = {
    "account.auth.type": "OAuth",
    "account.oauth.provider.type": (
        "org.apache.hadoop.fs.azurebfs.oauth2.ClientCredsTokenProvider"
    ),
    "account.oauth2.client.id": "the-app",
    "account.oauth2.client.secret": "hush",
    "account.oauth2.client.endpoint": "https://login.microsoftonline.com/the-tenant/oauth2/token",
}


def conf(suffix="", **settings):
    return {f"{AZURE}{name}{suffix}": value for name, value in settings.items()}


def at(given, env=(), path=PATH):
    found = azure_location(path, given, dict(env))
    assert found is not None
    return found


KEY = conf(**{"account.key": "K"})


def test_a_path_is_a_container_an_account_and_a_key_without_double_slashes():
    found = at(KEY)

    assert found.uri == f"abfss://lake@{HOST}/a/t"
    assert (found.bucket, found.account, found.key) == ("lake", "acme", "a/t")


@pytest.mark.parametrize(
    ("given", "env", "arrow", "delta"),
    [
        (KEY, {}, {"account_key": "K"}, {"AZURE_STORAGE_ACCOUNT_KEY": "K"}),
        (conf(f".{HOST}", **{"account.key": "O"}) | KEY, {}, {"account_key": "O"}, {}),
        (conf(".other.dfs.core.windows.net", **{"account.key": "O"}) | KEY, {}, {}, {}),
        (
            conf(**{"account.auth.type": "SAS", "sas.fixed.token": "sv=1"}),
            {},
            {"sas_token": "?sv=1"},
            {"AZURE_STORAGE_SAS_KEY": "sv=1"},
        ),
        (
            conf(**OAUTH),
            {},
            {"client_id": "the-app", "client_secret": "hush", "tenant_id": "the-tenant"},
            {
                "AZURE_STORAGE_CLIENT_ID": "the-app",
                "AZURE_STORAGE_CLIENT_SECRET": "hush",
                "AZURE_STORAGE_TENANT_ID": "the-tenant",
            },
        ),
        (
            conf(**OAUTH | {"account.oauth.provider.type": "x.MsiTokenProvider"}),
            {},
            {"client_id": "the-app"},
            {"AZURE_STORAGE_CLIENT_ID": "the-app"},
        ),
        ({}, {"AZURE_STORAGE_ACCOUNT_KEY": "E"}, {"account_key": "E"}, {}),
        ({}, {"AZURE_STORAGE_SAS_TOKEN": "?E"}, {"sas_token": "?E"}, {}),
        (KEY, {"AZURE_STORAGE_ACCOUNT_KEY": "E"}, {"account_key": "K"}, {}),
    ],
)
def test_the_libraries_get_the_user_that_spark_has(given, env, arrow, delta):
    found = at(given, env)

    assert arrow_arguments(found).items() >= {"account_name": "acme", **arrow}.items()
    assert delta_options(found).items() >= {"AZURE_STORAGE_ACCOUNT_NAME": "acme", **delta}.items()


@pytest.mark.parametrize(
    ("given", "env"),
    [
        ({}, {}),
        (conf(**{"account.auth.type": "Custom"}), {"AZURE_STORAGE_ACCOUNT_KEY": "E"}),
        (conf(**{"account.auth.type": "Custom", "account.key": "K"}), {}),
        (conf(**OAUTH | {"account.oauth.provider.type": "x.RefreshTokenBasedTokenProvider"}), {}),
        (conf(**OAUTH | {"account.oauth2.client.endpoint": "https://odd"}), {}),
    ],
)
def test_a_path_whose_user_the_libraries_cannot_be_is_left_to_spark(given, env):
    assert azure_location(PATH, given, env) is None
    assert Folders(given, env).open(PATH) is None


def test_no_secret_is_in_the_text_of_a_location():
    for given in (KEY, conf(**OAUTH), conf(**{"sas.fixed.token": "hush"})):
        assert "hush" not in repr(at(given))
        assert "'K'" not in repr(at(given))


def test_an_endpoint_has_the_account_in_its_path_for_delta_and_is_a_host_for_arrow():
    env = {"AZURE_STORAGE_ENDPOINT": "http://127.0.0.1:10000/acme/"}

    found = at(KEY, env)

    assert delta_options(found)["AZURE_STORAGE_ENDPOINT"] == "http://127.0.0.1:10000/acme"
    assert delta_options(found)["AZURE_ALLOW_HTTP"] == "true"
    arrow = arrow_arguments(found)
    assert (arrow["blob_storage_scheme"], arrow["blob_storage_authority"]) == (
        "http",
        "127.0.0.1:10000",
    )
    assert arrow["dfs_storage_authority"] == "127.0.0.1:10000"
    assert "AZURE_ALLOW_HTTP" not in delta_options(at(KEY))


@pytest.mark.parametrize("path", ["abfss://lake/t", f"abfss://{HOST}/t", "abfss://lake@/t"])
def test_a_path_without_container_or_account_is_one_error_with_the_form(path):
    with pytest.raises(StorageError, match=r"abfss://CONTAINER@ACCOUNT\.dfs\.core\.windows\.net"):
        azure_location(path, KEY, {})


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        ("The specified container does not exist.", "there is no container `lake`"),
        ("Azure Error: [AuthenticationFailed] 403", "refuses the user"),
        ("Fail to get a new connection for: https://acme", "does not answer"),
        ("[ServerBusy]", "503 ServerBusy"),
        ("odd\nthing", "fails: odd"),
    ],
)
def test_an_error_of_the_store_is_one_sentence_with_the_path(error, sentence):
    told = why_failed(at(KEY), error)

    assert told.startswith(f"abfss://lake@{HOST}/a/t: ")
    assert sentence in told
    assert "\n" not in told


class Refusing(BaseHTTPRequestHandler):
    """A store whose answers nobody can parse."""

    asked: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.asked.append(self.path)
        self.send_response(400)
        self.send_header("Content-Type", "application/xml")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_HEAD(self) -> None:
        self.do_GET()

    def log_message(self, *_: object) -> None: ...


def test_an_odd_store_is_one_sentence_without_the_token_that_signs_its_urls():
    given = conf(**{"sas.fixed.token": "sv=1&sig=hush"})
    with ThreadingHTTPServer(("127.0.0.1", 0), Refusing) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        env = {"AZURE_STORAGE_ENDPOINT": f"http://127.0.0.1:{server.server_port}/acme"}
        folder = Folders(given, env).open(PATH)
        assert folder is not None
        with pytest.raises(StorageError, match="/acme fails: ") as caught:
            folder.files.names(folder.path)
        server.shutdown()

    assert "hush" not in str(caught.value)
    assert Refusing.asked
    assert all(each.startswith("/acme/lake") and "sig=hush" in each for each in Refusing.asked)


def test_a_folder_is_opened_without_a_request():
    folder = Folders(KEY | conf(**{"account.key": "QUFB"}), {}).open(PATH)

    assert folder is not None
    assert folder.path == f"abfss://lake@{HOST}/a/t"
    assert folder.next_to("_lost").path.endswith("/a/t_lost")
    assert folder.options["AZURE_STORAGE_ACCOUNT_KEY"] == "QUFB"
