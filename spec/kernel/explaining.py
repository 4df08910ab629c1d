"""Why a property is false: which of its conditions decided, and the values that those conditions look at.

A property is a plain function, so its own source is the explanation. It is called once more while its lines are watched
(`sys.settrace`); the `return` that said no has conditions: the tests of the `if`s around it, or the parts of what it
returns. They are taken apart as long as one part alone decides: `and`, `or`, `not`, `all` and `any` over a generator,
and calls of other functions of the same package. What is left is told in the words of the source.

Conditions are asked again, part by part, so a property must have no effects, as each of the specification's has none.
What cannot be asked again, as an iterator that is used up, is told as a whole.
"""

from __future__ import annotations

import ast
import linecache
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Set
from contextlib import suppress
from enum import Enum
from functools import cache, partial
from itertools import pairwise
from types import CodeType, FrameType, FunctionType, MethodType, ModuleType
from typing import Any, Final, TypeAlias

import attrs

from tidegauge.spec.kernel.changes import plain
from tidegauge.spec.kernel.each import parts_of
from tidegauge.spec.kernel.machine import Machine

BECAUSE: Final = "false because"
"""The name under which the conditions are told."""
DEEPEST: Final = 4
"""Calls within calls that are taken apart."""
LONGEST: Final = 240
"""Characters of a value; what is longer is a large part of the state, which is told by itself."""

Names: TypeAlias = dict[str, Any]
Code: TypeAlias = ast.FunctionDef | ast.Lambda

_ITEM: Final = "__item__"
_OPPOSITES: Final[Mapping[type[ast.cmpop], ast.cmpop]] = {
    ast.Eq: ast.NotEq(),
    ast.NotEq: ast.Eq(),
    ast.Lt: ast.GtE(),
    ast.GtE: ast.Lt(),
    ast.Gt: ast.LtE(),
    ast.LtE: ast.Gt(),
    ast.In: ast.NotIn(),
    ast.NotIn: ast.In(),
    ast.Is: ast.IsNot(),
    ast.IsNot: ast.Is(),
}


@attrs.frozen
class Reason:
    """Conditions that hold together and make a property false, in the words of its source, and the values in them."""

    conditions: tuple[str, ...] = ()
    values: Mapping[str, object] = attrs.field(factory=dict)

    def __add__(self, other: Reason) -> Reason:
        return Reason((*self.conditions, *other.conditions), {**self.values, **other.values})

    def values_by_name(self) -> Mapping[str, object]:
        """The conditions under one name, then the values under the words that stand for them."""
        return {BECAUSE: " and ".join(self.conditions), **self.values} if self.conditions else {}


def why_false(rule: Callable[..., object], *given: object) -> Reason:
    """Why `rule` is false of what is given; an empty reason if it is true of it, or its source cannot be read."""
    try:
        return _Explanation(given, DEEPEST).of(rule, given)
    except Exception:  # asking again may do what the property did not: it is false all the same, without a reason
        return Reason()


def explained(machine: Machine[Any], name: str, *given: Any) -> Mapping[str, object]:
    """What makes a property of a machine false: its own conditions, then what the machine says of the state.

    `given` is a state or, for a property of steps, (before, action, after).
    """
    rules = machine.invariants if len(given) == 1 else machine.step_invariants
    return {**why_false(rules[name], *given).values_by_name(), **machine.explain(name, given[-1])}


def told(values: Mapping[str, object]) -> Iterator[str]:
    """What makes a property false, a line each; values may be words already."""
    for name, value in values.items():
        yield f"{name} {value}" if name == BECAUSE else f"{name} = {plain(value)}"


@attrs.frozen
class _Explanation:
    """What is asked: values that are given to the property themselves are not told, they are whole states."""

    given: tuple[object, ...]
    calls: int
    """How many calls within calls are still taken apart."""

    def of(self, rule: Any, arguments: tuple[object, ...]) -> Reason:
        if len(parts := parts_of(rule)) > 1:  # it says the same of several: of which of them is it false?
            part: Any = next(part for part in parts if not part(*arguments))
            name = part.func.__code__.co_varnames[0]
            return Reason(values={name: part.args[0]}) + self.of(part, arguments)
        function, bound = _function(rule)
        code = None if function is None else _source(function.__code__)
        if function is None or code is None:
            return Reason()
        seen = _watched(function, (*bound, *arguments))
        if seen is None:
            return Reason()
        line, names = seen
        if isinstance(code, ast.Lambda):
            return self.decided(code.body, names, wanted=False)
        for path in _returns(code):
            last = path[-1]
            if last.lineno <= line <= (last.end_lineno or last.lineno):
                return self._of_return(path, names)
        return Reason()

    def _of_return(self, path: tuple[ast.stmt, ...], names: Names) -> Reason:
        """The tests that led to the `return` at the end of the path, where it says no more than no."""
        statement = path[-1]
        assert isinstance(statement, ast.Return)
        loops = Reason(values=self._bindings((one.target for one in path if isinstance(one, ast.For)), names))
        if statement.value is not None and not isinstance(statement.value, ast.Constant):
            return loops + self.decided(statement.value, names, wanted=False)
        found = loops
        for outer, inner in pairwise(path):
            if isinstance(outer, ast.If):
                found += self.decided(outer.test, names, wanted=inner in outer.body)
        if found.conditions:
            return found
        for earlier in _before(path):  # `if this: return True`, and none of them was so
            found += self.decided(earlier.test, names, wanted=False)
        return found

    def decided(self, expression: ast.expr, names: Names, *, wanted: bool) -> Reason:
        """Why an expression is what is `wanted`, true or false."""
        match expression:
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return self.decided(operand, names, wanted=not wanted)
            case ast.BoolOp(op=op, values=parts) if isinstance(op, ast.And) == wanted:
                found = Reason()
                for part in parts:  # each of them has to be as it is
                    found += self.decided(part, names, wanted=wanted)
                return found
            case ast.BoolOp(values=parts):
                for part in parts:
                    if bool(_value(part, names)) == wanted:
                        return self.decided(part, names, wanted=wanted)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                chosen = bool(_value(test, names))
                reason = self.decided(test, names, wanted=chosen)
                return reason + self.decided(body if chosen else orelse, names, wanted=wanted)
            case ast.Call(func=ast.Name(id="all" | "any" as which), args=[ast.GeneratorExp() | ast.ListComp() as over]):
                if (which == "any") == wanted:
                    return self._of_one(over, names, wanted=wanted)
            case ast.Call() if not wanted and self.calls:
                inner = self._of_call(expression, names)
                if inner.conditions:
                    return inner
        return Reason((_words(expression, names, wanted=wanted),), self._values(expression, names))

    def _of_one(self, over: ast.GeneratorExp | ast.ListComp, names: Names, *, wanted: bool) -> Reason:
        """Why the first item that decides is as it is."""
        for bound in _bindings(over.generators, names):
            if bool(_value(over.elt, bound)) == wanted:
                told = self._bindings((generator.target for generator in over.generators), bound)
                return Reason(values=told) + self.decided(over.elt, bound, wanted=wanted)
        return Reason((_words(over, names, wanted=wanted),), {})

    def _of_call(self, call: ast.Call, names: Names) -> Reason:
        """Why another function said no; empty for one of another package, and for what is no more than a comparison."""
        rule = _value(call.func, names)
        function, _ = _function(rule)
        if function is None or call.keywords or any(isinstance(one, ast.Starred) for one in call.args):
            return Reason()
        if _package(function.__module__) != _package(names["__name__"]) or _is_one_comparison(function):
            return Reason()
        arguments = tuple(_value(one, names) for one in call.args)
        inner = attrs.evolve(self, calls=self.calls - 1).of(rule, arguments)
        if not inner.conditions:
            return inner
        return Reason((_words(call, names, wanted=False),), self._values(call, names)) + inner

    def _bindings(self, targets: Iterator[ast.expr], names: Names) -> Names:
        """What loops stand at, as far as it is a number or a name."""
        found = [node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)]
        return {name: names[name] for name in found if name != "_" and isinstance(names.get(name), int | str | Enum)}

    def _values(self, expression: ast.expr, names: Names) -> Names:
        """The values that an expression looks at, under its own words for them."""
        found: Names = {}
        for node in _looked_at(expression):
            with suppress(Exception):  # a part that was not asked for this state: it may have no value
                if _is_constant(node, names):
                    continue
                value = _value(node, names)
                is_whole = any(value is one for one in self.given) or isinstance(value, Machine)
                is_used_up = isinstance(value, Iterator)
                if not (is_whole or is_used_up or callable(value)) and len(plain(value)) <= LONGEST:
                    found[ast.unparse(node)] = value
        return found


def _function(rule: Any) -> tuple[FunctionType | None, tuple[object, ...]]:
    """The function that decides, and the arguments that it has already."""
    if isinstance(rule, partial) and not rule.keywords:
        function, bound = _function(rule.func)
        return function, (*bound, *rule.args)
    if isinstance(rule, MethodType):
        function, bound = _function(rule.__func__)
        return function, (rule.__self__, *bound)
    return (rule, ()) if isinstance(rule, FunctionType) else (None, ())


def _watched(function: FunctionType, arguments: tuple[object, ...]) -> tuple[int, Names] | None:
    """Where the function returned something false, and all names as they were there; None if it did not."""
    seen: tuple[int, Names] | None = None

    def watch(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal seen
        if event == "return" and not argument:
            seen = frame.f_lineno, {**frame.f_globals, **frame.f_locals}
        return watch

    before = sys.gettrace()
    sys.settrace(lambda frame, event, _: watch if frame.f_code is function.__code__ else None)
    try:
        result = function(*arguments)
    finally:
        sys.settrace(before)
    return None if result else seen


@cache
def _tree(path: str) -> ast.Module | None:
    lines = linecache.getlines(path)
    return ast.parse("".join(lines)) if lines else None


@cache
def _source(code: CodeType) -> Code | None:
    """The definition that a code object was made from; None where there is no source."""
    tree = _tree(code.co_filename)
    if tree is None:
        return None
    within = [(line, column) for line, _, column, _ in code.co_positions() if line and column is not None]
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == code.co_name:
            if code.co_firstlineno in (node.lineno, *(one.lineno for one in node.decorator_list)):
                return node
        elif isinstance(node, ast.Lambda) and node.lineno == code.co_firstlineno and code.co_name == "<lambda>":
            begin, end = (node.body.lineno, node.body.col_offset), (node.body.end_lineno, node.body.end_col_offset)
            if any(begin <= place < end for place in within):
                return node
    return None


def _package(module: str) -> str:
    return module.partition(".")[0]


def _is_one_comparison(function: FunctionType) -> bool:
    """Whether a function is no more than a name for a comparison: its name and what it is given say it all."""
    code = _source(function.__code__)
    last = code.body[-1] if isinstance(code, ast.FunctionDef) else None
    return isinstance(last, ast.Return) and isinstance(last.value, ast.Compare) and len(last.value.ops) == 1


def _is_constant(node: ast.expr, names: Names) -> bool:
    """Whether a name stands for the same everywhere: a constant of a module, or of a class as members of enums are."""
    if isinstance(node, ast.Name):
        return node.id.isupper()
    return isinstance(node, ast.Attribute) and isinstance(_value(node.value, names), type | ModuleType)


def _returns(code: ast.FunctionDef) -> Iterator[tuple[ast.stmt, ...]]:
    """Each `return` of a function, with the statements that it is in, the outermost first."""
    ways: list[tuple[ast.stmt, ...]] = [(statement,) for statement in code.body]
    while ways:
        path = ways.pop(0)
        if isinstance(path[-1], ast.Return):
            yield (code, *path)
        elif not isinstance(path[-1], ast.FunctionDef | ast.ClassDef):
            ways += [(*path, child) for child in ast.iter_child_nodes(path[-1]) if isinstance(child, ast.stmt)]


def _before(path: tuple[ast.stmt, ...]) -> Iterator[ast.If]:
    """The `if`s before a `return` in the block that it ends, each of which returns by itself."""
    block: list[ast.stmt] = getattr(path[-2], "body", [])
    for statement in block:
        if statement is path[-1]:
            return
        if isinstance(statement, ast.If) and isinstance(statement.body[-1], ast.Return):
            yield statement


def _bindings(generators: list[ast.comprehension], names: Names) -> Iterator[Names]:
    """All that the loops of a generator stand at, one after the other."""
    if not generators:
        yield names
        return
    first, *others = generators
    for item in _value(first.iter, names):
        bound = {**names, _ITEM: item}
        assignment = ast.Assign([first.target], ast.Name(_ITEM, ast.Load()))
        exec(compile(ast.fix_missing_locations(ast.Module([assignment], [])), "<property>", "exec"), bound)
        if all(_value(test, bound) for test in first.ifs):
            yield from _bindings(others, bound)


def _value(expression: ast.expr, names: Names) -> Any:
    """What an expression of a property comes to. The names are its globals, for a generator in it sees no locals."""
    return eval(compile(ast.Expression(expression), "<property>", "eval"), names)


def _looked_at(expression: ast.expr) -> Iterator[ast.expr]:
    """The names, attributes and items that an expression looks at, the largest of each, without those of its loops."""
    if isinstance(expression, ast.Attribute | ast.Subscript | ast.Name):
        yield expression
    elif isinstance(expression, ast.Call):
        for argument in (*expression.args, *(one.value for one in expression.keywords)):
            yield from _looked_at(argument)
        if isinstance(expression.func, ast.Attribute):
            yield from _looked_at(expression.func.value)
    elif isinstance(expression, ast.GeneratorExp | ast.ListComp | ast.SetComp | ast.DictComp):
        yield from _looked_at(expression.generators[0].iter)
    elif not isinstance(expression, ast.Lambda):
        for child in ast.iter_child_nodes(expression):
            if isinstance(child, ast.expr):
                yield from _looked_at(child)


def _has_opposite(compared: ast.Compare, names: Names) -> bool:
    """Whether what is not so is another comparison: of two sets neither may be a part of the other one."""
    if len(compared.ops) > 1 or not isinstance(compared.ops[0], ast.Lt | ast.LtE | ast.Gt | ast.GtE):
        return len(compared.ops) == 1
    with suppress(Exception):  # a part that only the property itself can evaluate
        return not any(isinstance(_value(one, names), Set | Counter) for one in (compared.left, *compared.comparators))
    return False


def _words(expression: ast.expr, names: Names, *, wanted: bool) -> str:
    """The words of the source for what is so."""
    if wanted:
        return ast.unparse(expression)
    if isinstance(expression, ast.Compare) and _has_opposite(expression, names):
        opposite = _OPPOSITES[type(expression.ops[0])]
        return ast.unparse(ast.Compare(expression.left, [opposite], expression.comparators))
    return ast.unparse(ast.UnaryOp(ast.Not(), expression))
