"""Each operator makes what it says of one place, and the code of a function with it."""

from __future__ import annotations

import ast
from types import FunctionType
from typing import Any

import pytest

from tidegauge.model_tests.mutants.kept import REPLACEMENTS, Replacement, replaced
from tidegauge.model_tests.mutants.operators import Function, SourceModule, compiled, mutants_of
from tidegauge.model_tests.mutants.patching import patcher_of
from tidegauge.model_tests.mutants.rooms import NO_PROTOCOL, ROOMS, mutants, mutants_in

BOTH = "`a and b` -> "


def module_of(source: str) -> SourceModule:
    return SourceModule("toy", "toy.py", ast.parse(source), "toy.py")


def changes(body: str) -> set[str]:
    """What the operators make of the body of a function."""
    source = "def f(a, b, log_event, self):\n" + "".join(f"    {line}\n" for line in body.splitlines())
    return {mutant.name.removeprefix("toy.py f: ") for mutant in mutants_of(module_of(source))}


@pytest.mark.parametrize(
    ("body", "made"),
    [
        ("return a < b", {"`a < b` -> `a <= b`", "`a < b` -> `a >= b`"}),
        ("return a >= b", {"`a >= b` -> `a > b`", "`a >= b` -> `a < b`"}),
        ("return a == b", {"`a == b` -> `a != b`"}),
        ("return a is not b", {"`a is not b` -> `a is b`"}),
        ("return a in b", {"`a in b` -> `a not in b`"}),
        ("return a and b", {BOTH + "`a or b`", BOTH + "`a`", BOTH + "`b`"}),
        ("if a:\n    return b", {"guard `if a` -> nothing", "`a` -> `not a`"}),
        ("while not a:\n    continue", {"`not a` -> `a`"}),
        ("return [x for x in b if a]", {"`a` -> `not a`"}),
        ("return a + b", {"`a + b` -> `a - b`"}),
        ("return a | b", {"`a | b` -> `a & b`"}),
        ("return min(a, b)", {"`min(a, b)` -> `max(a, b)`"}),
        ("return any(a)", {"`any(a)` -> `all(a)`"}),
        ("return 7", {"`7` -> `8`"}),
        ("return True", {"`True` -> `False`"}),
        ("a(b)", {"`a(b)` -> nothing"}),
        ("self.a = b", {"`self.a = b` -> nothing"}),
        ("del a[b]", {"`del a[b]` -> nothing"}),
        ("c = b", set()),
        ("'Says 1.'\nlog_event(a, 1)\nassert a < b\nraise ValueError(1)", set()),
        ("super().__init__(f'{a - 1} is no offset')", set()),
        ("super().__init__(a)", {"`super().__init__(a)` -> nothing"}),
    ],
)
def test_an_operator_makes_these_of_a_place(body: str, made: set[str]) -> None:
    assert changes(body) == made


def test_the_lines_of_a_mutant_are_those_of_its_statement_without_the_body_of_that() -> None:
    source = """def f(a, b, c):
    '''Says what it does.'''
    if (a and
            b):
        return c == 1
    for x in [
        y for y in c if y > 2
    ]:
        self.z = x
        match x:
            case 3 if a < b:
                g(4)
    return 5
"""
    found = {mutant.change.words.split("`")[1]: mutant.lines for mutant in mutants_of(module_of(source))}
    assert found["a and b"] == range(3, 5)
    assert found["c == 1"] == range(5, 6)
    assert found["y > 2"] == range(6, 9)
    assert found["self.z = x"] == range(9, 10)
    assert found["a < b"] == range(10, 13)
    assert found["g(4)"] == range(12, 13)
    assert found["5"] == range(13, 14)


def test_what_is_said_twice_in_a_function_has_two_names() -> None:
    assert changes("return (a + b, a + b)") == {
        "`a + b` -> `a - b` in `(a + b, a + b)`",
        "`a + b` -> `a - b` in `(a + b, a + b)` (2)",
    }


CLASSES = """
class Base:
    def limit(self, n):
        return n < 3

class Derived(Base):
    def limit(self, n):
        if n == 100:
            return False
        return super().limit(n) and n != 1
"""


def test_a_mutant_takes_the_place_of_the_code_in_every_object() -> None:
    space: dict[str, Any] = {}
    exec(compile(CLASSES, "toy.py", "exec"), space)
    derived, module = space["Derived"], module_of(CLASSES)
    wanted = {"`super().limit(n) and n != 1` -> `n != 1`", "`n != 1` -> `n == 1`"}
    found = [one for one in mutants_of(module) if one.name.removeprefix("toy.py Derived.limit: ") in wanted]
    assert len(found) == len(wanted)
    before = ast.dump(module.tree)
    limits = {}
    kept: FunctionType = derived.limit
    original = kept.__code__
    for mutant in found:
        kept.__code__ = mutant.code()
        limits[mutant.name.rpartition("-> ")[2]] = [n for n in range(5) if derived().limit(n)]
        kept.__code__ = original
    assert limits == {"`n != 1`": [0, 2, 3, 4], "`n == 1`": [1]}
    assert ast.dump(module.tree) == before


def test_every_mutant_of_every_room_can_be_put_in_place_and_has_a_name_of_its_own() -> None:
    functions: dict[tuple[str, str, int], Function] = {}
    names = []
    for room in ROOMS:
        for mutant in mutants(room):
            functions[mutant.function.key] = mutant.function
            names.append(mutant.name)
    assert len(names) == len(set(names)) > 2_000
    in_memory = patcher_of(function.module for function in functions.values()).functions
    for key, function in functions.items():
        if any(isinstance(node, ast.Assert) for node in ast.walk(function.node)):
            assert in_memory[key]  # pytest has rewritten it
            continue
        assert {one.__code__.co_code for one in in_memory[key]} == {compiled(function).co_code}, function.qualname


def test_every_kept_replacement_is_in_the_code_once() -> None:
    made = [one for room in ROOMS for one in replaced(room.files) if room.changes(one.function)]
    assert {one.replacement.name for one in made} == {one.name for one in REPLACEMENTS}
    assert len(made) == len(REPLACEMENTS)
    for one in made:
        assert one.code() != compiled(one.function)


def test_a_kept_replacement_whose_words_have_gone_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = REPLACEMENTS[0]._replace(old="what was there once")
    missing = Replacement("it is missing", gone.file, "Nobody.knows", "a", "b")
    monkeypatch.setattr("tidegauge.model_tests.mutants.kept.REPLACEMENTS", (gone,))
    (one,) = replaced((gone.file,))
    with pytest.raises(LookupError, match="'what was there once' 0 times"):
        one.code()
    monkeypatch.setattr("tidegauge.model_tests.mutants.kept.REPLACEMENTS", (missing,))
    with pytest.raises(LookupError, match=r"has no Nobody\.knows"):
        list(replaced((missing.file,)))


def test_every_mutant_is_in_one_room_and_the_rooms_of_a_file_divide_it() -> None:
    names = [mutant.name for room in ROOMS for mutant in mutants(room)]
    assert len(names) == len(set(names))
    of_files = {file for room in ROOMS for file in room.files}
    assert set(names) == {mutant.name for file in of_files for mutant in mutants_in(file)}


def test_what_is_no_rule_of_a_protocol_is_a_function_that_is_there() -> None:
    without = [room for room in ROOMS if room.is_protocol is False]
    functions = {
        f"{one.module.path} {one.qualname}"
        for room in without
        for module in room.modules()
        for one in module.functions()
        if room.changes(one)
    }
    for file, beginnings in NO_PROTOCOL.items():
        for beginning in beginnings:
            assert any(name.startswith(f"{file} {beginning}") for name in functions), (file, beginning)
