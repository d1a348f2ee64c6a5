"""What a change can reach is tested, and not much else."""

import pytest

from tests.changed import Tree, choose, tree_here

TEXTS = {
    "core/__init__.py": "",
    "core/log.py": "import os\nfrom core import disk\n",
    "core/disk.py": "",
    "core/far.py": "",
    "josefine_cli/__init__.py": "",
    "josefine_cli/main.py": "def run():\n    from josefine_cli.verbs import app\n",
    "josefine_cli/verbs.py": (
        "VERBS = {'broker': ('josefine_cli.broker.command',), 'demo': ('josefine_cli.dev.demo',)}\n"
    ),
    "josefine_cli/broker/command.py": "from core.log import Log\n",
    "josefine_cli/dev/demo.py": "NAME = 'flights.yaml'\nimport core.far\n",
    "tests/conftest.py": "",
    "tests/support.py": "RUN = ['-c', 'from josefine_cli.main import main; main()', 'broker']\n",
    "tests/unit/conftest.py": "import core.far\n",
    "tests/unit/test_log.py": "def test():\n    from core.log import Log\n",
    "tests/unit/test_style.py": "",
    "tests/processes/test_broker.py": "from tests.support import RUN\n",
    "tests/processes/test_demo.py": "from tests.support import RUN\nVERB = 'demo'\n",
}
TREE = Tree(TEXTS, others=["conf/flights.yaml", "pyproject.toml", "core/gone.py", "README.md"])
STYLE = "tests/unit/test_style.py"


@pytest.mark.parametrize(
    ("changed", "tests"),
    [
        ("core/log.py", {"unit/test_log", "processes/test_broker", "processes/test_demo"}),
        ("core/disk.py", {"unit/test_log", "processes/test_broker", "processes/test_demo"}),
        ("core/__init__.py", {"unit/test_log", "unit/test_style", "processes/test_broker",
                              "processes/test_demo"}),
        ("core/far.py", {"unit/test_log", "processes/test_demo"}),  # conftest.py; the verb
        ("conf/flights.yaml", {"processes/test_demo"}),
        ("tests/support.py", {"processes/test_broker", "processes/test_demo"}),
        ("tests/unit/test_log.py", {"unit/test_log"}),
        ("README.md", set()),
    ],
)  # fmt: skip
def test_tests_are_chosen_by_what_they_reach(changed: str, tests: set[str]) -> None:
    names = {f"tests/{name}.py" for name in tests} | {STYLE}

    assert set(choose(TREE, [changed])) == names


def test_a_module_that_is_gone_is_still_somebodys_import() -> None:
    tree = Tree({**TEXTS, "tests/unit/test_old.py": "import core.gone\n"}, others=["core/gone.py"])

    assert "tests/unit/test_old.py" in choose(tree, ["core/gone.py"])


def test_a_change_of_what_all_share_chooses_everything_and_none_chooses_nothing() -> None:
    assert set(choose(TREE, ["pyproject.toml"])) == set(TREE.tests())
    assert choose(TREE, []) == {}


def test_here_a_change_below_the_broker_reaches_its_processes_and_no_pipeline_alone() -> None:
    tree = tree_here()
    broker = choose(tree, ["josefine_broker/engine/partition/partition.py"])
    pipeline = choose(tree, ["pipelines/run/batch_commit.py"])

    assert {"tests/unit/josefine_broker/engine/partition/test_partition.py",
            "tests/integration/test_crash.py",
            "tests/compat/test_kcat.py", "tests/simulation/cluster/test_seeds.py",
            "tests/spark/connector/test_sink.py"} <= set(broker)  # fmt: skip
    assert "tests/simulation/raft/test_seeds.py" not in broker
    assert "tests/spark/pipelines/test_kill.py" in pipeline
    assert "tests/integration/test_crash.py" not in pipeline
