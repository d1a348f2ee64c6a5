"""Runs the tests that the changes since main can reach: `./build.sh test changed`.

A test file reaches what it imports, what that imports, and so on; every conftest.py above it; and
modules named in strings (`python -m x.y`, "from x.y import main"), for processes are started so.
A file that is not Python is reached by who names it in a string. A verb of the command is reached
by tests that name the verb. Where this errs it takes too much; what only documentation or the whole
tree can break is looked at each time (`ALWAYS`), and a change of `EVERYTHING` chooses every test.
"""

from __future__ import annotations

import argparse
import ast
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ALWAYS = (
    "tests/unit/test_style.py",
    "tests/unit/test_docs.py",
    "tests/unit/test_documented_commands.py",
    "tests/unit/test_site.py",
)
EVERYTHING = ("pyproject.toml", "tests/conftest.py")
VERBS = "josefine_cli/verbs.py"
"""Loads a verb's module by name: not every process that starts the command uses every verb."""

UNIT = "tests/unit/"
DOTTED = re.compile(r"\b[a-z_]\w*(?:\.[a-z_]\w*)+")
FILE_NAME = re.compile(r"[\w.-]+\.\w+")


@dataclass(frozen=True, slots=True)
class Names:
    """What one Python file names: modules by import, and every string in it."""

    modules: frozenset[str]
    strings: frozenset[str]


def names_of(text: str) -> Names:
    """What a file names, in its code: docstrings tell of more than it uses."""
    modules: set[str] = set()
    strings: set[str] = set()
    nodes = list(ast.walk(ast.parse(text)))
    told = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        if isinstance(node, ast.Import):
            modules.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            modules.add(node.module)
            modules.update(f"{node.module}.{alias.name}" for alias in node.names)
        elif (
            isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in told
        ):
            strings.add(node.value)
    return Names(frozenset(modules), frozenset(strings))


class Tree:
    """All files by name, the text of the Python ones; who reaches what."""

    def __init__(self, texts: Mapping[str, str], others: Iterable[str] = ()) -> None:
        """`texts`: Python files; `others`: the rest, and Python files that are gone."""
        self.files = {*texts, *others}
        self._names = {path: names_of(text) for path, text in texts.items()}
        self._modules = {module_of(path): path for path in self.files if path.endswith(".py")}
        self._by_name: dict[str, list[str]] = {}
        for path in self.files:
            if not path.endswith(".py"):
                self._by_name.setdefault(path.rpartition("/")[2], []).append(path)
        self._next = {path: self._edges(path) for path in texts}
        verbs = verbs_of(texts.get(VERBS, ""))
        self._verbs = {path: verb for path in texts if (verb := verbs.get(module_of(path)))}

    def tests(self) -> list[str]:
        return sorted(path for path in self._names if is_test(path))

    def reached_from(self, test: str) -> dict[str, str]:
        """Every file that this test reaches → the file that led there."""
        led: dict[str, str] = {test: ""}
        work = [test, *(path for path in conftests(test) if path in self._names)]
        led.update(dict.fromkeys(work[1:], test))
        words: set[str] = set()
        while work:
            path = work.pop()
            if path.startswith("tests/"):
                words |= self._names[path].strings
                if VERBS in led:
                    work.append(VERBS)  # a word more may mean a verb more
            for target in self._next.get(path, ()):
                verb = self._verbs.get(target) if path == VERBS else None
                if verb is not None and verb not in words and target not in led:
                    continue
                if target not in led:
                    led[target] = path
                    if target in self._names:
                        work.append(target)
        return led

    def _edges(self, path: str) -> frozenset[str]:
        names = self._names[path]
        found: set[str] = set()
        for module in names.modules:
            found.update(self._files_of(module))
        for text in names.strings:
            for module in DOTTED.findall(text):
                found.update(self._files_of(module))
            for name in FILE_NAME.findall(text):
                found.update(self._by_name.get(name, ()))
        return frozenset(found - {path})

    def _files_of(self, module: str) -> Iterable[str]:
        """The module's file and those of the packages around it; none for a module of others."""
        parts = module.split(".")
        for end in range(1, len(parts) + 1):
            path = self._modules.get(".".join(parts[:end]))
            if path is not None:
                yield path


def verbs_of(text: str) -> dict[str, str]:
    """Module → the verb that loads it, by the table in `VERBS`."""
    return {
        value.elts[0].value: key.value
        for table in ast.walk(ast.parse(text))
        if isinstance(table, ast.Dict)
        for key, value in zip(table.keys, table.values, strict=True)
        if isinstance(key, ast.Constant) and isinstance(value, ast.Tuple)
        if isinstance(value.elts[0], ast.Constant)
    }


def is_test(path: str) -> bool:
    return path.startswith("tests/") and path.rpartition("/")[2].startswith("test_")


def module_of(path: str) -> str:
    """`a/b.py` → a.b; a package's `__init__.py` is the package."""
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def conftests(test: str) -> list[str]:
    folders = test.split("/")[:-1]
    return ["/".join([*folders[:n], "conftest.py"]) for n in range(1, len(folders) + 1)]


def choose(tree: Tree, changed: Iterable[str]) -> dict[str, str]:
    """Test file → why it is to run, for every one that a changed file can break."""
    wanted = set(changed)
    whole = next((path for path in EVERYTHING if path in wanted), None)
    chosen: dict[str, str] = {}
    for test in tree.tests():
        led = tree.reached_from(test)
        met = sorted(wanted & led.keys())
        if whole:
            chosen[test] = f"{whole} changed"
        elif test in wanted:
            chosen[test] = "it changed"
        elif met:
            chosen[test] = f"reaches {met[0]}" + (f" and {len(met) - 1} more" if met[1:] else "")
        elif wanted and test in ALWAYS:
            chosen[test] = "looks at the whole tree"
    return chosen


def tree_here() -> Tree:
    """What git knows and what it would take up, as it is on disk."""
    listed = git("ls-files", "--cached", "--others", "--exclude-standard")
    there = [path for path in listed if (ROOT / path).is_file()]
    texts = {path: (ROOT / path).read_text() for path in there if path.endswith(".py")}
    return Tree(texts, others=set(listed) - texts.keys())


def changed_since(base: str) -> list[str]:
    """Files that differ from where this branch left `base`, committed or not."""
    (start,) = git("merge-base", base, "HEAD")
    fresh = git("ls-files", "--others", "--exclude-standard")
    return sorted({*git("diff", "--name-only", "--no-renames", start), *fresh})


@cache
def git(*arguments: str) -> list[str]:
    command = ["git", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout.splitlines()


def main() -> int:
    """Say what is chosen and why, then run it: unit tests first, the rest only if those pass."""
    parser = argparse.ArgumentParser(prog="./build.sh test changed", description=main.__doc__)
    parser.add_argument("--since", default="main", help="branch or commit (default: main)")
    parser.add_argument("--list", action="store_true", help="only say what would run")
    asked, arguments = parser.parse_known_args()
    changed = changed_since(asked.since)
    chosen = choose(tree_here(), changed)
    tell(changed, chosen, asked.since)
    units = [test for test in chosen if test.startswith(UNIT)]
    rest = [test for test in chosen if not test.startswith(UNIT)]
    for tests in () if asked.list else (units, rest):
        if tests:
            code = subprocess.call([sys.executable, "-m", "pytest", *arguments, *tests], cwd=ROOT)
            if code:
                return code
    return 0


def tell(changed: list[str], chosen: Mapping[str, str], since: str) -> None:
    print(f"{len(changed)} files differ from {since}; {len(chosen)} test files can see that:")
    for test, why in chosen.items():
        print(f"  {test}: {why}")
    folders = Counter(os.path.dirname(test) for test in chosen)
    print("  " + ", ".join(f"{count} in {folder}" for folder, count in folders.items()), flush=True)


if __name__ == "__main__":
    sys.exit(main())
