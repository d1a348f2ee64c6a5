"""Measures of the product's shape on small examples, and the ratchet of their limits."""

from __future__ import annotations

import textwrap

import pytest

from tests.shape.arrows import cycles, folder_cycles, upward
from tests.shape.first_look import LOOKS_MAX, Question, is_same, looks
from tests.shape.limits import Limits, broken, tightened
from tests.shape.marks import (
    Mark,
    StalePath,
    commented,
    large_classes,
    look_marks,
    percentile,
    size_marks,
    untested_marks,
)
from tests.shape.sources import Facts, facts_of


def facts(text: str) -> Facts:
    return facts_of(textwrap.dedent(text))


def of_lines(lines: int, commented_lines: int = 0) -> Facts:
    return Facts(lines=lines, commented_lines=commented_lines, functions=(), classes=())


def test_function_is_as_long_as_from_its_def_to_its_last_line() -> None:
    found = facts(
        '''
        def outer(
            a,
        ):
            """Text."""
            async def inner():
                return 1
            return inner
        '''
    )

    assert {each.name: each.length for each in found.functions} == {"outer": 7, "inner": 2}


@pytest.mark.parametrize(
    ("line", "is_comment"),
    [
        ("x = 1  # why", True),
        ("# why", True),
        ("x = 1  # type: ignore[misc]  # py4j has no types", True),
        ("x = '# no'", False),
        ("x = f'# {y} #'", False),
        ("x = 'é#'  # why", True),
        ("x = b'#'", False),
        ("x = 1  # type: ignore[misc]", False),
        ("x = 1  # fmt: skip", False),
        ("import x  # noqa: F401", False),
        ("#", False),
    ],
)
def test_comment_is_for_readers_and_outside_of_strings(line: str, is_comment: bool) -> None:
    found = facts(f"def f(y):\n    {line}\n    return y\n")

    assert found.functions[0].has_comment is is_comment
    assert found.commented_lines == is_comment


def test_lines_of_a_text_are_no_comments_unless_it_is_a_docstring() -> None:
    text = facts("x = '''\n# a\n# b\n'''\n")
    docstring = facts("class A:\n    '''One.\n\n    # Two.\n    '''\n    x = 1\n    '''Three.'''\n")

    assert (text.commented_lines, docstring.commented_lines) == (0, 5)


def test_attributes_are_fields_and_what_methods_assign_to_self_each_once() -> None:
    (found,) = facts(
        """
        class A:
            a: int
            both: int = 1
            shared: ClassVar[int] = 1
            def __init__(self, other):
                self.both = self.b = 1
                self.c, other.d = 1, 2
                self.e.f = 1
                self.table[1] = 1
            def g(self):
                self.h += 1
                self.i: int = 1
        """
    ).classes

    assert (found.attributes, found.is_mutable) == (6, True)


@pytest.mark.parametrize(
    "head",
    [
        "@dataclass(frozen=True, slots=True)\nclass A:",
        "class A(NamedTuple):",
        "class A(enum.Enum):",
        "class A(Section):",
    ],
)
def test_values_are_not_mutable(head: str) -> None:
    assert not facts(f"{head}\n    x: int\n").classes[0].is_mutable


def test_only_mutable_classes_with_more_than_a_dozen_attributes_are_large() -> None:
    def fields(count: int) -> str:
        return "".join(f"    a{n}: int\n" for n in range(count))

    text = f"class A:\n{fields(13)}class B:\n{fields(12)}class C(NamedTuple):\n{fields(13)}"

    assert large_classes({"p/a.py": facts_of(text)}) == {"p/a.py::A": 13}


def test_cycle_is_found_however_long_and_once() -> None:
    arrows = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": {"e"}, "e": {"d"}, "f": {"a"}}

    assert cycles({name: frozenset(others) for name, others in arrows.items()}) == [
        ["a", "b", "c"], ["d", "e"],
    ]  # fmt: skip


def test_long_path_without_a_cycle_has_none() -> None:
    chain = {str(n): frozenset({str(n + 1), str(n + 2)}) for n in range(5000)}

    assert cycles(chain) == []


def test_folders_that_import_each_other_are_a_cycle_without_one_of_modules() -> None:
    arrows = {
        "p.a.one": frozenset({"p.b.one"}),
        "p.b.two": frozenset({"p.a.two"}),
        "p.c": frozenset({"p.a.one"}),
    }

    assert cycles(arrows) == []
    assert folder_cycles(arrows) == [["p.a", "p.b"]]


def test_folder_and_a_module_beside_it_are_a_cycle_but_not_with_its_own_package() -> None:
    beside = {"p.a.one": frozenset({"p.b"}), "p.b": frozenset({"p.a.one"})}
    within = {"p.a": frozenset({"p.a.one"}), "p.a.one": frozenset({"p.a"})}

    assert folder_cycles({"p.a.one": frozenset({"p.b"}), "p.b": frozenset({"p.a.two"})}) == [
        ["p.a", "p.b"]
    ]
    assert folder_cycles(beside) == [["p.a", "p.b"]]
    assert folder_cycles(within) == []


def test_cycle_of_modules_alone_is_none_of_folders() -> None:
    assert folder_cycles({"p.a": frozenset({"p.b"}), "p.b": frozenset({"p.a"})}) == []


def test_arrow_to_a_higher_or_an_independent_part_is_against_the_layers() -> None:
    contracts = [
        {"type": "layers", "containers": ["p"], "layers": ["top", "(mid) | side", "low : deep"]},
        {"type": "layers", "layers": ["p", "q"]},
        {"type": "forbidden", "source_modules": ["p"], "forbidden_modules": ["q"]},
    ]
    arrows = {
        "p.top.a": frozenset({"p.low", "p.mid.b", "q.c", "p.top.b"}),
        "p.mid.b": frozenset({"p.side", "p.other"}),
        "p.low": frozenset({"p.top.a", "p.deep"}),
        "q.c": frozenset({"p.mid.b"}),
    }

    assert upward(arrows, contracts) == [
        "p.low -> p.top.a", "p.mid.b -> p.side", "q.c -> p.mid.b",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("values", "expected"), [([], 0), ([7], 7), (range(1, 101), 95), (range(1, 11), 10)]
)
def test_percentile_is_a_value_that_is_there(values: list[int], expected: int) -> None:
    assert percentile(values, 95) == expected


def test_files_are_counted_when_longer_than_the_limit_and_lines_for_each_package() -> None:
    found = {"p/a.py": of_lines(500), "p/b.py": of_lines(501), "q/a.py": of_lines(1)}
    values = {mark.name: mark for mark in size_marks(found, 500)}

    assert values["files above 500 lines"].listed == ("p/b.py",)
    assert values["product lines"].value == 1002
    assert (values["lines of p"].value, values["lines of q"].value) == (1001, 1)


def test_share_of_comments_is_of_the_files_that_the_patterns_name_each_once() -> None:
    found = {"p/a/b.py": of_lines(10, 5), "p/a/c/d.py": of_lines(30, 5), "p/e.py": of_lines(60)}

    assert commented(found, ("p/a/*", "p/a/b.py")) == 25.0


def test_pattern_or_question_that_names_no_file_is_an_error() -> None:
    with pytest.raises(StalePath, match="p/gone"):
        commented({"p/a.py": of_lines(1)}, ("p/gone*",))
    with pytest.raises(StalePath, match=r"p/gone\.py"):
        look_marks({"p/a.py": of_lines(1)}, [Question("?", "gone", "p/gone.py")])


def test_module_is_without_a_test_when_no_unit_test_imports_it_itself() -> None:
    found = dict.fromkeys(("p/__init__.py", "p/a.py", "p/b.py", "p/c.py"), of_lines(1))
    (mark,) = untested_marks(found, {"t": "from p import a\nimport p.b\nuse('p.c')\n"})

    assert (mark.value, mark.listed) == (1, ("p/c.py",))


def test_module_of_kernels_is_imported_by_a_string_with_its_name() -> None:
    found = dict.fromkeys(("p/kernels.py", "p/a_kernels.py", "p/b_kernels.py"), of_lines(1))
    text = "import_kernels('p.kernels')\nLOOPS = {'p.a_kernels': 1}\n"
    (mark,) = untested_marks(found, {"t": text})

    assert mark.listed == ("p/b_kernels.py",)


PATHS = (
    "p/dead_letters/writer.py", "p/dead_letters/replay.py", "p/writer.py", "p/x_writer.py",
    "p/a/start.py", "p/b/start.py", "q/dead_letter_writer.py",
)  # fmt: skip


@pytest.mark.parametrize(
    ("words", "file", "expected"),
    [
        ("dead letter write", "p/dead_letters/writer.py", 1),
        ("write", "p/dead_letters/writer.py", 1.5),
        ("write", "p/x_writer.py", 3),
        ("start", "p/b/start.py", 1.5),
        ("dead letter", "p/dead_letters/replay.py", 1.5),
        ("nowhere", "p/writer.py", LOOKS_MAX),
        ("p", "p/writer.py", LOOKS_MAX),
    ],
)
def test_looks_are_the_mean_place_among_the_paths_of_the_package(
    words: str, file: str, expected: float
) -> None:
    assert looks(words, file, PATHS) == expected


@pytest.mark.parametrize(
    ("word", "in_path", "same"),
    [
        ("write", "writing", True),
        ("aggregate", "aggregates", True),
        ("election", "elect", True),
        ("settle", "settling", True),
        ("static", "states", False),
        ("as", "assign", False),
        ("start", "st", False),
        ("scd2", "scd1", False),
    ],
)
def test_word_is_seen_in_its_forms_and_not_in_others(word: str, in_path: str, same: bool) -> None:
    assert is_same(word, in_path) is same


def marks(**values: float) -> list[Mark]:
    return [Mark(name=name, value=value) for name, value in values.items()]


def test_value_beyond_its_limit_fails_and_one_at_its_limit_does_not() -> None:
    limits = Limits(at_most={"a": 2, "b": 2}, at_least={"c": 5, "d": 5}, classes={})

    found = broken(marks(a=2, b=3, c=5, d=4, e=99), {}, limits)

    assert [each.partition(":")[0] for each in found] == ["b", "d"]


def test_limit_of_a_mark_that_is_not_measured_fails() -> None:
    (found,) = broken([], {}, Limits(at_most={"gone": 2}, at_least={}, classes={}))

    assert "there is no mark 'gone'" in found


@pytest.mark.parametrize(
    ("large", "allowed", "complaint"),
    [
        ({"a.py::A": 13}, {}, "a.py::A: 13 attributes that can change, at most a dozen"),
        ({"a.py::A": 14}, {"a.py::A": 13}, "a.py::A: 14 attributes that can change, at most 13"),
        ({}, {"a.py::A": 13}, "'a.py::A': it has a dozen attributes at most, or is gone"),
    ],
)
def test_class_larger_than_allowed_or_allowed_for_nothing_fails(
    large: dict[str, int], allowed: dict[str, int], complaint: str
) -> None:
    (found,) = broken([], large, Limits(at_most={}, at_least={}, classes=allowed))

    assert complaint in found
    assert broken([], large, Limits(at_most={}, at_least={}, classes=large)) == []


def test_class_that_moved_is_named_with_its_new_file() -> None:
    limits = Limits(at_most={}, at_least={}, classes={"old.py::A": 13})

    found = broken([], {"new/a.py::A": 13}, limits)

    assert "'old.py::A': it is now 'new/a.py::A'" in found[-1]


def test_tightened_limits_are_never_looser() -> None:
    limits = Limits(
        at_most={"better": 5, "worse": 5, "gone": 5},
        at_least={"more": 5, "less": 5},
        classes={"a.py::Smaller": 20, "a.py::Larger": 20, "a.py::Gone": 20, "a.py::Moved": 20},
    )
    large = {"a.py::Smaller": 15, "a.py::Larger": 25, "b.py::Moved": 18, "b.py::New": 13}

    found = tightened(marks(better=3, worse=7, more=7, less=3, other=1), large, limits)

    assert found == Limits(
        at_most={"better": 3, "worse": 5},
        at_least={"more": 7, "less": 5},
        classes={"a.py::Smaller": 15, "a.py::Larger": 20, "b.py::Moved": 18},
    )


def test_tightened_limit_leaves_room_up_to_the_next_step() -> None:
    found = [Mark(name="lines", value=1201, step=500), Mark(name="share", value=15.5)]
    limits = Limits(at_most={"lines": 9000}, at_least={"share": 0}, classes={})

    assert tightened(found, {}, limits) == Limits(
        at_most={"lines": 1500}, at_least={"share": 15}, classes={}
    )


def test_one_line_of_the_allow_list_serves_one_class_that_moved() -> None:
    limits = Limits(at_most={}, at_least={}, classes={"old.py::A": 20})

    found = tightened([], {"b.py::A": 13, "c.py::A": 13}, limits)

    assert found.classes == {"b.py::A": 13}
