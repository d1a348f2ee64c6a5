"""HTTP and the text protocol of a real broker over TLS: real clients, our commands, who is refused
and what is said of it.
"""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import ssl
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from josefine_cli.dashboard.watching import Watcher
from tests.support.broker import BrokerProcess
from tests.support.certificates import Authority
from tests.support.cli import COMMAND, environment, josefine
from tests.support.text import text_address
from tests.support.waiting import wait_until

pytestmark = pytest.mark.timeout(240)


class Served(NamedTuple):
    """A broker whose pages and text lines are over TLS, and whose files may be replaced."""

    broker: BrokerProcess
    authority: Authority
    directory: Path
    settings: Path
    """Of our commands."""

    @property
    def context(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=self.authority.certificate)

    @property
    def text(self) -> tuple[str, int]:
        return text_address(self.broker)

    def get(self, path: str, context: ssl.SSLContext | None = None) -> tuple[int, str]:
        where = self.broker.admin_url + path
        try:
            with urllib.request.urlopen(
                where, timeout=30, context=context or self.context
            ) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def refused(self) -> float:
        (line,) = (
            each
            for each in self.get("/metrics")[1].splitlines()
            if each.startswith("josefine_connection_closed_tls_total ")
        )
        return float(line.split()[-1])


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    directory = tmp_path_factory.mktemp("pages")
    authority = Authority(directory / "ca")
    own = authority.issue("broker")
    certificate, key = directory / "c.pem", directory / "k.pem"
    certificate.write_bytes(own.certificate.read_bytes())
    key.write_bytes(own.key.read_bytes())
    settings = directory / "client.properties"
    settings.write_text(f"security.protocol=SSL\nssl.ca.location={authority.certificate}\n")
    with BrokerProcess(
        directory / "broker",
        tls__certificate=str(certificate),
        tls__key=str(key),
        tls__ca=str(authority.certificate),
        tls__client_auth="requested",
        tls__reload_check_ms=50,
        admin__tls=True,
        text__port=0,
        text__tls=True,
        acls__enabled=True,
        acls__super_users=["User:CN=ops", "User:ANONYMOUS"],
    ) as broker:
        yield Served(broker, authority, directory, settings)


def test_commands_of_ours_speak_tls(served: Served) -> None:
    words = ("--client-config", str(served.settings))
    admin, text = served.broker.admin_url, "{}:{}".format(*served.text)

    status = josefine("", *words, "cluster", "status", "--admin", admin, "--json")
    said = josefine("", *words, "text", text, "--tls", stdin="CRTP lines 1\nPUBS lines {}\n")

    assert admin.startswith("https://")
    assert (status.code, status.err) == (0, "")
    assert json.loads(served.get("/cluster")[1])["brokers"][0]["admin"] == admin
    assert (said.code, said.out) == (0, "Done\nDone\n")


def test_commands_that_are_not_told_of_tls_say_what_to_do(served: Served) -> None:
    admin, text = served.broker.admin_url, "{}:{}".format(*served.text)

    plain = josefine("", "cluster", "status", "--admin", admin.replace("https", "http"))
    stranger = josefine("", "cluster", "status", "--admin", admin)
    line = josefine("", "text", text, stdin="CRTP t\n")

    assert [each.code for each in (plain, stranger, line)] == [1, 1, 1]
    assert [each.err.count("\n") for each in (plain, stranger, line)] == [1, 1, 1]
    assert plain.err.endswith(
        "it closed the connection; if it speaks TLS (admin.tls), use https://\n"
    )
    assert "certificate refused: " in stranger.err
    assert "if it speaks TLS (text.tls), add --tls" in line.err


def test_dashboard_asks_over_tls(served: Served) -> None:
    async def scenario(context: ssl.SSLContext | None) -> list[int]:
        watcher = Watcher([served.broker.admin_url], context)
        await watcher.start()
        try:
            return list(await watcher._all("/cluster"))
        finally:
            await watcher.stop()

    assert asyncio.run(scenario(served.context)) == [1]
    assert asyncio.run(scenario(None)) == []


def test_dashboard_is_served_over_tls(served: Served, tmp_path: Path) -> None:
    own = served.authority.issue("dashboard", password="open sesame")
    password = tmp_path / "password"
    password.write_text("open sesame\n")
    where = ["--listen", "127.0.0.1:0", "--admin", served.broker.admin_url]
    files = ["--certificate", str(own.certificate), "--key", str(own.key)]
    files += ["--key-password", f"file:{password}"]
    errors = tmp_path / "errors"
    with errors.open("wb") as stderr:
        process = subprocess.Popen(
            [*COMMAND, "--client-config", str(served.settings), "dashboard", *where, *files],
            stdout=subprocess.PIPE, stderr=stderr, text=True, env=environment(""),
        )  # fmt: skip
    try:
        assert process.stdout is not None
        url = process.stdout.readline().removeprefix("dashboard on ").strip()
        assert url.startswith("https://127.0.0.1:")
        with urllib.request.urlopen(url, timeout=30, context=served.context) as page:
            assert b"<html" in page.read()
        with pytest.raises(urllib.error.URLError, match="certificate verify failed"):
            urllib.request.urlopen(url, timeout=30)
        with pytest.raises(OSError, match=r"closed|reset"):
            urllib.request.urlopen(url.replace("https", "http"), timeout=30)
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
    assert errors.read_text() == ""


def test_dashboard_says_which_file_is_wrong(tmp_path: Path) -> None:
    missing = josefine("", "dashboard", "--certificate", str(tmp_path / "none"))
    lonely = josefine("", "dashboard", "--key", str(tmp_path / "none"))

    named = josefine("", "dashboard", "--certificate", "x", "--key-password", "sesame")

    assert (missing.code, lonely.code, named.code) == (1, 2, 2)
    assert named.err.startswith("error: --key-password: ")
    assert "sesame" not in named.err
    assert missing.err == f"error: --certificate: {tmp_path}/none: no such file or directory\n"
    assert lonely.err == "error: --key has no effect without --certificate\n"


def test_openssl_is_the_nc_of_a_text_listener_with_tls(served: Served) -> None:
    host, port = served.text
    command = ["openssl", "s_client", "-quiet", "-verify_return_error", "-verify_ip", host]
    command += ["-CAfile", str(served.authority.certificate), "-connect", f"{host}:{port}"]

    done = subprocess.run(
        command, input=b"CRTP nc 2\nDISC\n", stdout=subprocess.PIPE, check=False, timeout=60
    )

    assert done.stdout == b"Done\nDone\n"


def test_client_that_hangs_up_behind_its_lines_has_them_done_without_a_word_in_the_log(
    served: Served,
) -> None:
    with served.context.wrap_socket(
        socket.create_connection(served.text, 30), server_hostname="localhost"
    ) as client:
        client.sendall(b"CRTP gone 1\n")
        with suppress(ssl.SSLError):  # its answer comes meanwhile
            client.unwrap()

    wait_until(
        lambda: "gone" in josefine(served.broker.bootstrap, "topics", "list").out, 30, "the topic"
    )
    assert "eof_received" not in served.broker.output


def test_plaintext_and_noise_are_hung_up_on_counted_and_told_once_without_a_trace(
    served: Served,
) -> None:
    before = served.refused()
    admin = served.broker.admin_url.removeprefix("https://").split(":")
    for where in ((admin[0], int(admin[1])), served.text):
        for said in (b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n", b"CRTP plain 1\n", b"\0" * 64):
            with socket.create_connection(where, timeout=30) as client:
                client.sendall(said)
                left = b""
                with suppress(ConnectionError):
                    while part := client.recv(1_000):
                        left += part
                assert b"HTTP/" not in left
                assert b"Done" not in left

    wait_until(lambda: served.refused() >= before + 6, 30, "they are counted")
    assert served.broker.output.count("TLS handshake failed") <= 2
    assert "Traceback" not in served.broker.output


def test_another_authority_is_not_believed_by_a_client(served: Served, tmp_path: Path) -> None:
    other = ssl.create_default_context(cafile=Authority(tmp_path, "other").certificate)

    with pytest.raises(urllib.error.URLError, match="certificate verify failed"):
        served.get("/health", other)
    with pytest.raises(ssl.SSLCertVerificationError):
        other.wrap_socket(socket.create_connection(served.text, 30), server_hostname="localhost")


def test_renewed_certificate_is_shown_by_pages_and_text(served: Served) -> None:
    admin = served.broker.admin_url.removeprefix("https://").split(":")
    places = ((admin[0], int(admin[1])), served.text)
    second = served.authority.issue("second", days=20)

    for new, path in ((second.key, "k.pem"), (second.certificate, "c.pem")):
        (served.directory / "new").write_bytes(new.read_bytes())
        (served.directory / "new").replace(served.directory / path)

    expected = second.certificate.read_text().strip()
    for where in places:
        wait_until(
            lambda where=where: ssl.get_server_certificate(where).strip() == expected,
            30,
            "the new certificate",
        )
    assert served.get("/health/live") == (200, "ok\n")
