"""Operators: each makes, of one place in a function, a mutant with one rule changed.

A mutant is named after its file, its function and what is replaced by what, so that its name stays when lines move. The
tree of the module is changed only while the mutant is compiled; nothing is written to a file. What writes log lines and
what raises keeps its words: they are no rules.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Mapping
from types import CodeType
from typing import Any, Final, NamedTuple, TypeVar

import attrs

ORDERINGS: Final[dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
"""A comparison -> off by one, where there is such a thing, and flipped."""
ARITHMETIC: Final[dict[type[ast.operator], type[ast.operator]]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}
LEAVING: Final = (ast.Return, ast.Raise, ast.Continue, ast.Break)
LOGS: Final = ("log_event", "LOGGER", "logging")
"""What a call that writes a log line begins with."""
NOTHING: Final = "nothing"

A = TypeVar("A", bound=ast.AST)


class Place(NamedTuple):
    """Where a node stands in its parent."""

    parent: ast.AST
    field: str
    at: int | None
    """Where in the list that the field is; None for a field that is no list."""

    @property
    def node(self) -> ast.AST:
        """The one that is there."""
        there: Any = getattr(self.parent, self.field)
        node: ast.AST = there if self.at is None else there[self.at]
        return node

    def put(self, node: ast.AST) -> ast.AST:
        """Put the node there; returns the one that was."""
        before = self.node
        if self.at is None:
            setattr(self.parent, self.field, node)
        else:
            getattr(self.parent, self.field)[self.at] = node
        return before


class Change(NamedTuple):
    """One node in place of another."""

    place: Place
    node: ast.AST
    words: str


@attrs.frozen(eq=False)
class Function:
    """A function of a module, or a method of one of its classes, with all that is inside of it."""

    module: SourceModule
    qualname: str
    node: ast.FunctionDef | ast.AsyncFunctionDef

    @property
    def first_line(self) -> int:
        """As its code has it: that of the first decorator."""
        return min([self.node.lineno, *(decorator.lineno for decorator in self.node.decorator_list)])

    @property
    def lines(self) -> range:
        """Those of its body; the lines before it run where the function is made."""
        return range(self.node.body[0].lineno, (self.node.end_lineno or 0) + 1)

    @property
    def key(self) -> tuple[str, str, int]:
        """By which its code is known: the name of the module, its own, and its first line."""
        return self.module.name, self.qualname, self.first_line


@attrs.frozen(eq=False)
class SourceModule:
    """A module's source, parsed once."""

    name: str
    """As it is imported."""
    path: str
    """From the root of the repository."""
    tree: ast.Module
    file: str
    """As its code has it."""
    _as_it_is: dict[tuple[str, int], CodeType] = attrs.field(init=False, factory=dict, repr=False)

    def code_of(self, function: Function) -> CodeType:
        """The code of one of its functions, without a change; the module is compiled once for all of them."""
        if not self._as_it_is:
            self._as_it_is.update(self.codes())
        return _code_in(self._as_it_is, function)

    def codes(self) -> dict[tuple[str, int], CodeType]:
        """The codes in it, compiled as its tree is now, by qualified name and first line."""
        found: dict[tuple[str, int], CodeType] = {}
        waiting = [compile(self.tree, self.file, "exec", dont_inherit=True)]
        while waiting:
            code = waiting.pop()
            found.setdefault((code.co_qualname, code.co_firstlineno), code)
            waiting += [inner for inner in code.co_consts if isinstance(inner, CodeType)]
        return found

    def functions(self) -> Iterator[Function]:
        """Its functions and methods, those inside of functions not by themselves."""
        yield from self._functions_of(self.tree, "")

    def _functions_of(self, node: ast.Module | ast.ClassDef, prefix: str) -> Iterator[Function]:
        for inner in node.body:
            if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef):
                yield Function(self, prefix + inner.name, inner)
            elif isinstance(inner, ast.ClassDef):
                yield from self._functions_of(inner, f"{prefix}{inner.name}.")


@attrs.frozen(eq=False)
class Mutant:
    """A function with one node replaced."""

    name: str
    function: Function
    change: Change

    def code(self) -> CodeType:
        """The code of the function with the change."""
        return compiled(self.function, self.change)

    @property
    def lines(self) -> range:
        """The lines of the statement that is changed, those of its body excluded: a run of none of them is the same."""
        return lines_around(self.function, self.change.place.node)


def mutants_of(module: SourceModule) -> Iterator[Mutant]:
    """Every mutant of a module's functions."""
    for function in module.functions():
        named = Counter[str]()
        for change in changes_of(function.node):
            name = f"{module.path} {function.qualname}: {change.words}"
            named[name] += 1
            times = f" ({named[name]})" if named[name] > 1 else ""
            yield Mutant(name + times, function, change)


def lines_around(function: Function, node: ast.AST) -> range:
    """The lines of the innermost statement around a node; of one with a body, only those before the body."""
    line: int = getattr(node, "lineno", 0)
    around = function.lines
    for statement in ast.walk(function.node):
        if isinstance(statement, ast.stmt) and statement is not function.node:
            last = statement.end_lineno or statement.lineno
            body = getattr(statement, "body", None)
            if body:
                last = max(statement.lineno, body[0].lineno - 1)
            lines = range(statement.lineno, last + 1)
            if line in lines and len(lines) <= len(around):
                around = lines
    return around


def compiled(function: Function, change: Change | None = None) -> CodeType:
    """A function's code, with a change or as it is. It has the free variables of the code as it is."""
    wanted = function.module.code_of(function)
    if change is None:
        return wanted
    before = change.place.put(_located(change.node, function))
    try:
        code = _code_in(function.module.codes(), function)
        if code.co_freevars != wanted.co_freevars:  # `super()` has gone; a code keeps its function's cells
            names = [_located(ast.Expr(ast.Name(name, ast.Load())), function) for name in wanted.co_freevars]
            function.node.body[:0] = names
            try:
                code = _code_in(function.module.codes(), function)
            finally:
                del function.node.body[: len(names)]
        return code
    finally:
        change.place.put(before)


def _located(node: A, function: Function) -> A:
    return ast.fix_missing_locations(ast.copy_location(node, function.node))


def _code_in(codes: Mapping[tuple[str, int], CodeType], function: Function) -> CodeType:
    code = codes.get((function.qualname, function.first_line))
    if code is None:
        raise LookupError(
            f"{function.module.path} has no code of {function.qualname}: was it compiled from another source?"
        )
    return code


# --- the operators ---------------------------------------------------------------------------------------------------


def changes_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[Change]:
    """Every change of one node in a function's body that an operator makes."""
    for index, statement in enumerate(function.body):
        yield from _changes(Place(function, "body", index), statement)


def _changes(place: Place, node: ast.AST) -> Iterator[Change]:
    if _is_wording(node):
        return
    for operator in (statement_left_out, comparison_changed, condition_negated, operand_changed, constant_changed):
        yield from operator(place, node)
    for field, value in ast.iter_fields(node):
        if field in {"annotation", "returns", "decorator_list", "args"} and not isinstance(node, ast.Call):
            continue
        if isinstance(value, ast.AST):
            yield from _changes(Place(node, field, None), value)
        elif isinstance(value, list):
            for index, inner in enumerate(value):
                if isinstance(inner, ast.AST):
                    yield from _changes(Place(node, field, index), inner)


def _is_wording(node: ast.AST) -> bool:
    """Whether it only says something: a docstring, a log line, an exception's words, an assertion."""
    match node:
        case ast.Raise() | ast.Assert() | ast.JoinedStr():
            return True
        case ast.Expr(value=ast.Constant()):
            return True
        case ast.Expr(value=ast.Call(func=func, args=args)):
            called = ast.unparse(func)
            words = called == "super().__init__" and [type(word) for word in args] == [ast.JoinedStr]
            return words or called.split(".")[0] in LOGS
    return False


def statement_left_out(place: Place, node: ast.AST) -> Iterator[Change]:
    """A guard, a call for its effect, or an assignment to what outlives the function, is left out."""
    match node:
        case ast.If(test=test, body=[*_, last], orelse=[]) if isinstance(last, LEAVING):
            yield Change(place, ast.Pass(), f"guard `if {ast.unparse(test)}` -> {NOTHING}")
        case ast.Expr(value=ast.Call() | ast.Await()):
            yield Change(place, ast.Pass(), f"`{ast.unparse(node)}` -> {NOTHING}")
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]) | ast.AugAssign():
            yield Change(place, ast.Pass(), f"`{ast.unparse(node)}` -> {NOTHING}")
        case ast.Delete():
            yield Change(place, ast.Pass(), f"`{ast.unparse(node)}` -> {NOTHING}")


def comparison_changed(place: Place, node: ast.AST) -> Iterator[Change]:
    """A comparison is off by one, or flipped."""
    if not isinstance(node, ast.Compare):
        return
    for index, operator in enumerate(node.ops):
        for other in ORDERINGS[type(operator)]:
            changed = ast.Compare(node.left, [*node.ops[:index], other(), *node.ops[index + 1 :]], node.comparators)
            yield _instead(place, node, changed)


def condition_negated(place: Place, node: ast.AST) -> Iterator[Change]:
    """What decides is negated; of a single comparison the flipped one is that already."""
    if place.field not in {"test", "ifs"} or _is_single_comparison(node) or not isinstance(node, ast.expr):
        return
    match node:
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            yield _instead(place, node, inner)
        case _:
            yield _instead(place, node, ast.UnaryOp(ast.Not(), node))


def _is_single_comparison(node: ast.AST) -> bool:
    return isinstance(node, ast.Compare) and len(node.ops) == 1


def operand_changed(place: Place, node: ast.AST) -> Iterator[Change]:
    """`and` is `or`, one operand is left out; `+` is `-`, `|` is `&`; `min` is `max`, `any` is `all`."""
    match node:
        case ast.BoolOp(op=op, values=values):
            other = ast.Or() if isinstance(op, ast.And) else ast.And()
            yield _instead(place, node, ast.BoolOp(other, values))
            for index in range(len(values)):
                rest = values[:index] + values[index + 1 :]
                yield _instead(place, node, rest[0] if len(rest) == 1 else ast.BoolOp(op, rest))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in ARITHMETIC:
            yield _instead(place, node, ast.BinOp(left, ARITHMETIC[type(op)](), right))
        case ast.Call(func=ast.Name(id=("min" | "max" | "any" | "all") as called), args=args, keywords=keywords):
            other_name = {"min": "max", "max": "min", "any": "all", "all": "any"}[called]
            yield _instead(place, node, ast.Call(ast.Name(other_name, ast.Load()), args, keywords))


def constant_changed(place: Place, node: ast.AST) -> Iterator[Change]:
    """A number is one more, a truth value the other one."""
    match node:
        case ast.Constant(value=bool(truth)):
            yield _instead(place, node, ast.Constant(not truth))
        case ast.Constant(value=int(number)):
            yield _instead(place, node, ast.Constant(number + 1))


def _instead(place: Place, node: ast.AST, other: ast.expr) -> Change:
    around = "" if isinstance(node, ast.BoolOp | ast.Compare | ast.Call) else _around(place)
    return Change(place, other, f"`{ast.unparse(node)}` -> `{ast.unparse(other)}`{around}")


def _around(place: Place) -> str:
    return f" in `{ast.unparse(place.parent)}`" if isinstance(place.parent, ast.expr) else ""
