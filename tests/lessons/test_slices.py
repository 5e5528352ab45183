"""Which cells run again when a lesson is solved: those that differ, and those that read what these give."""

from __future__ import annotations

import pytest

from tests.lessons.slices import names, second_run


@pytest.mark.parametrize(
    ("source", "reads", "gives"),
    [
        ("x = y + 1", {"y"}, {"x"}),
        ("x = 1\nprint(x)", {"print"}, {"x"}),
        ("x += y", {"x", "y"}, {"x"}),
        ("from a.b import c as d, e\nimport f.g", set(), {"d", "e", "f"}),
        ("def f(a, b=c):\n    d = a\n    return d + g", {"c", "g"}, {"f"}),
        ("class A(B):\n    size = n\n\n    def m(self):\n        return k", {"B", "n", "k"}, {"A"}),
        ("for a, b in c:\n    d = a", {"c"}, {"a", "b", "d"}),
        ("with a() as b:\n    b.c()", {"a"}, {"b"}),
        ("if a:\n    b = 1\nelse:\n    c = b", {"a"}, {"b", "c"}),
        ("try:\n    a()\nexcept E:\n    b()", {"a", "b"}, set()),
        ("t = [u for u in v if u > w]", {"v", "w"}, {"t"}),
        ("a.b = 1\nc[d] = 2", {"a", "c", "d"}, {"a", "c"}),
        ("(lambda q: q + r)(1)", {"r"}, set()),
    ],
)
def test_names_of_a_cell(source: str, reads: set[str], gives: set[str]) -> None:
    found = names(source)
    assert (found.reads, found.gives) == (reads, gives)


def test_only_what_can_differ_runs_again() -> None:
    before = ["import torch", "f = ...", "check(f)", "y = torch.ones(1)", "print(f)", "z = f(y)", "z", "y"]
    after = [before[0], "def f(x):\n    return x", *before[2:]]
    assert second_run(before, after) == [1, 2, 4, 5, 6]  # neither the import, nor y and what shows it
    assert second_run(before, before) == []


def test_what_a_later_cell_has_overwritten_is_given_again() -> None:
    before = ["x = 1", "f = ...", "f(x)", "x = 2", "f(x)"]
    after = [before[0], "f = print", *before[2:]]
    assert second_run(before, after) == [0, 1, 2, 3, 4]
    assert second_run([*before[:3], "f = 0", "f"], [*after[:3], "f = 0", "f"]) == [1, 2], "a new f is not the old one"
