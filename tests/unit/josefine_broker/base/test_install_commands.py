"""Commands that install optional packages: their bounds are those of pyproject.toml."""

import re
import tomllib

from conf.distributions.table import DISTRIBUTIONS
from josefine_broker.base.install_commands import (
    DISTRIBUTION_OF,
    PART_OF,
    REQUIREMENTS,
    install_command,
    not_installed,
)
from tests.unit.test_style import ROOT


def test_commands_name_the_packages_with_the_bounds_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    optional = project["optional-dependencies"]
    known = {each for some in optional.values() for each in some}

    for part, packages in REQUIREMENTS.items():
        assert set(packages) <= known, part
    for part in ("spark", "journal", "otel", "protobuf", "iceberg"):
        assert sorted(REQUIREMENTS[part]) == sorted(optional[part]), part


def test_a_missing_package_is_answered_with_the_command_for_its_whole_part() -> None:
    assert not_installed("pyarrow.compute") == (
        "'pyarrow' is not installed: pip install 'pyarrow>=18' 'numba>=0.60' 'numpy>=1.26'"
    )
    assert set(PART_OF.values()) <= set(REQUIREMENTS)
    assert install_command("protobuf") == "pip install 'protobuf>=5'"


def test_a_missing_part_of_josefine_names_its_distribution() -> None:
    names = {each.name for each in DISTRIBUTIONS}

    assert {"josefine", "josefine-client", *DISTRIBUTION_OF.values()} == names
    assert not_installed("josefine_journal.blocking") == (
        "'josefine_journal' is not installed: "
        "pip install --find-links FOLDER_OF_WHEELS josefine-journal"
    )
    assert not_installed("something") == "'something' is not installed"


def test_no_message_advises_an_extra_of_a_project_that_is_not_published() -> None:
    packages = ("josefine_*", "pipelines", "raft")
    sources = [path for each in packages for path in ROOT.glob(f"{each}/**/*.py")]

    assert len(sources) > 500
    advised = [str(path) for path in sources if re.search(r"josefine\[\w", path.read_text())]
    assert advised == []
