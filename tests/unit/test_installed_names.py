"""Sources of `pipelines/` and `raft/` under the names that the wheel installs them by."""

from __future__ import annotations

import ast

import pytest

from conf.distributions.installed_names import INSTALLED, OUR_PACKAGES, UnclearName, rewritten
from tests.unit.test_style import ROOT, SOURCES


@pytest.mark.parametrize(
    ("source", "installed"),
    [
        ("from pipelines import frames\n", "from josefine_pipelines import frames\n"),
        ("from pipelines.model.plan import A\n", "from josefine_pipelines.model.plan import A\n"),
        ("from raft import (\n    Config,\n)\n", "from josefine_raft import (\n    Config,\n)\n"),
        ("def f():\n    from raft import a\n", "def f():\n    from josefine_raft import a\n"),
        ("import pipelines.run.run as run\n", "import josefine_pipelines.run.run as run\n"),
        ("import os, raft as r\n", "import os, josefine_raft as r\n"),
        ("é = 'é'; from raft import a\n", "é = 'é'; from josefine_raft import a\n"),
        ("raft = 1; from raft import b\n", "raft = 1; from josefine_raft import b\n"),
        ("from raft import raft; raft()\n", "from josefine_raft import raft; raft()\n"),
        ("a = 1; from raft import a; from pipelines import b\n",
         "a = 1; from josefine_raft import a; from josefine_pipelines import b\n"),
        ("OUR_PACKAGES = ('pipelines', 'x', 'raft')\n",
         "OUR_PACKAGES = ('josefine_pipelines', 'x', 'josefine_raft')\n"),
    ],
)  # fmt: skip
def test_imports_of_the_packages_get_the_installed_name(source: str, installed: str) -> None:
    assert rewritten(source, "a.py") == installed


@pytest.mark.parametrize(
    "source",
    [
        "from pyspark import pipelines as dp\n",
        "import pipelines_lab, raftlib\n",
        "from pipelines_lab.raft import a\n",
        "from . import raft\n",
        "from .raft import raft\n",
        "pipelines = {'raft': raft.pipelines}\n",
        "key = 'raft.listener'\n",
        "name = 'raft'\n",
        '"""As in `raft.node`."""\n',
        "'raft.node'\n",
        "# from raft import a\n",
    ],
)
def test_everything_else_is_left_alone(source: str) -> None:
    assert rewritten(source, "a.py") == source


@pytest.mark.parametrize(
    ("source", "complaint"),
    [
        ("import os\nimport raft.node\n", "a.py:2: `import raft.node` binds the name `raft`"),
        ("import pipelines\n", "a.py:1: `import pipelines` binds the name `pipelines`"),
        ("run('-m', 'raft.node')\n", "a.py:1: the string 'raft.node' names a module"),
    ],
)
def test_what_cannot_be_rewritten_fails_the_build_with_its_line(
    source: str, complaint: str
) -> None:
    with pytest.raises(UnclearName) as failure:
        rewritten(source, "a.py")

    assert str(failure.value).startswith(complaint)


def test_no_source_of_ours_imports_a_folder_name_when_rewritten() -> None:
    """Line for line, so that a traceback points to the same line of the sources."""
    texts = {path: path.read_text() for path in SOURCES}
    changed = {
        path: (text, new)
        for path, text in texts.items()
        if (new := rewritten(text, path.relative_to(ROOT).as_posix())) != text
    }

    assert len(changed) > 100
    for path, (text, new) in changed.items():
        assert len(new.splitlines()) == len(text.splitlines()), path
        assert first_names(new) & INSTALLED.keys() == set(), path


def test_one_variable_names_the_packages_in_strings() -> None:
    assigned = [
        path.relative_to(ROOT).as_posix()
        for path in SOURCES
        if f"\n{OUR_PACKAGES} = " in path.read_text()
    ]

    assert len(assigned) == 1


def first_names(text: str) -> set[str]:
    """The top-level packages that a module imports."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add((node.module or "").partition(".")[0])
    return found
