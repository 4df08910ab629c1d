"""The rules of this project that a linter does not know; test_tidy.py holds the tree to them.

A rule looks at one module and yields a message for each breach. Rules about code read the syntax tree, so comments and
docstrings do not trip them; the rule about words reads everything.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from functools import cache, cached_property
from pathlib import Path

import attrs

ROOT = Path(__file__).resolve().parent.parent
ROOMS = (
    "compilation",
    "spec",
    "impl",
    "linearizability",
    "spark_check",
    "model_tests",
    "tidegauge",
    "benchmarks",
    "tools",
)

LONGEST_FILE = 600
LONGEST_FUNCTION = 70
LONGEST_LINE = 120

WITNESSES = frozenset({"spec", "impl", "linearizability"})
MAY_IMPORT = {
    "compilation": frozenset({"compilation"}),
    "spec": frozenset({"spec", "compilation"}),
    "impl": frozenset({"impl"}),
    "linearizability": frozenset({"linearizability", "compilation"}),
    "spark_check": WITNESSES | {"spark_check"},
    "tidegauge": WITNESSES | {"spark_check", "model_tests.harness", "tidegauge"},
    "model_tests.harness": WITNESSES | {"model_tests.harness", "model_tests.bugs"},
    "model_tests": WITNESSES | {"compilation", "model_tests", "spark_check", "tidegauge", "benchmarks"},
}
"""Who may import whom; the longest prefix of a module's name decides."""

IMPL_MAY_IMPORT = {
    "impl.records": frozenset({"impl.records"}),
    "impl.partition": frozenset({"impl.partition", "impl.records"}),
    "impl.metadata": frozenset({"impl.metadata", "impl.partition", "impl.records"}),
    "impl.controller": frozenset({"impl.controller", "impl.metadata", "impl.partition"}),
    "impl.coordinators": frozenset({"impl.coordinators", "impl.partition", "impl.records"}),
    "impl.storage": frozenset({"impl.storage", "impl.partition", "impl.records", "impl.ports"}),
    "impl.wire": frozenset({"impl.wire", "impl.records", "impl.ports"}),
    "impl.ports": frozenset({"impl.ports"}),
    "impl.client": frozenset({"impl.client", "impl.wire", "impl.records", "impl.ports"}),
    "impl.tap": frozenset({"impl.tap", "impl.wire", "impl.records", "impl.ports"}),
    "impl.faults": frozenset(
        {"impl.faults", "impl.wire", "impl.ports", "impl.server.transport", "impl.server.error_responses"}
    ),
}
"""What a package of impl/ may import of impl/: always downwards."""

COMPOSITION_ROOTS = frozenset({"impl.server.broker_server", "impl.server.broker_handlers"})
"""They put a broker together from its parts; they import every part, and no part imports them."""
APIS_BROKER_AND_CONTROLLER = frozenset({"impl.server.apis", "impl.server.broker", "impl.server.controller"})
SERVER_MAY_NOT_IMPORT = {
    "impl.server.transport": frozenset({"impl.controller"}) | APIS_BROKER_AND_CONTROLLER | COMPOSITION_ROOTS,
    "impl.server.broker": frozenset({"impl.controller", "impl.server.apis", "impl.server.controller"})
    | COMPOSITION_ROOTS,
    "impl.server.apis": frozenset({"impl.controller", "impl.server.apis", "impl.server.controller"})
    | COMPOSITION_ROOTS,
    "impl.server.controller": frozenset({"impl.server.apis", "impl.server.broker"}) | COMPOSITION_ROOTS,
    "impl.server.settings": frozenset({"impl.server.transport"}) | APIS_BROKER_AND_CONTROLLER | COMPOSITION_ROOTS,
    "impl.server": APIS_BROKER_AND_CONTROLLER | COMPOSITION_ROOTS,
}
"""What a package of impl/server may not import; the last line is for its modules outside of these packages.

Brokers know the controller by its messages and by `impl.metadata` only.
"""
ABOVE_THE_SERVER = frozenset({"impl.client", "impl.cluster", "impl.faults", "impl.tap"})

CORES = (
    "impl.partition",
    "impl.coordinators",
    "impl.controller",
    "impl.metadata",
    "impl.records",
    "impl.client.assignors",
    "impl.client.consumer_membership",
    "impl.client.membership",
    "impl.client.positions",
    "impl.client.work_queues",
)
PURE = ("spec", "linearizability", *CORES)
COMPOSED_OF_EXTENSIONS = ("spec.replication.composed", "spec.replication.models", "spec.registry", "spec.bugs")
"""What may name an extension from outside of it: a list of features, a list of models, the registry, a bug of it."""
CLOCKS_AND_RANDOMNESS = frozenset({"time", "random", "datetime", "secrets", "uuid"})
PLAIN_VALUES = frozenset({"random", "random.Random", "uuid.UUID", "datetime.timedelta"})
"""What may be had from them: a generator that asks for a seed, and types that only hold what they are given."""
TASKS = frozenset({"trio", "asyncio", "anyio"})
OUTSIDE = frozenset({"socket", "select", "subprocess", "threading", "os", "pathlib"})
NO_NAMES = frozenset({"utils", "util", "helpers", "helper", "manager", "managers", "common", "misc"})
WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
"""A part of `snake_case` or `CamelCase`, or a word of prose."""
NAME = re.compile(r"\w+")
UNFINISHED = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X)\b")


@attrs.frozen
class Module:
    """A source file: its path from the root of the repository, and its text."""

    path: str
    source: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.source, self.path)

    @cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        """Those of its tree, which every rule about code goes through."""
        return tuple(ast.walk(self.tree))

    @cached_property
    def imports(self) -> tuple[tuple[int, str], ...]:
        """Every (line, dotted name) imported, `from a import b` as `a.b`, relative imports made absolute."""
        return tuple(_imports(self))

    @property
    def name(self) -> str:
        return self.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")

    def inside(self, *packages: str) -> bool:
        return any(is_within(self.name, package) for package in packages)


Rule = Callable[[Module], Iterator[str]]


def is_within(name: str, package: str) -> bool:
    return name == package or name.startswith(package + ".")


def tree() -> Iterator[Module]:
    """Every module of the repository."""
    for room in ROOMS:
        links = [path for path in (ROOT / room).iterdir() if path.is_symlink()]  # rooms are linked into tidegauge/
        for path in sorted((ROOT / room).rglob("*.py")):
            if any(link in path.parents for link in links):
                continue
            yield Module(path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8"))


@cache
def modules() -> tuple[Module, ...]:
    """Every module of the repository, parsed once."""
    return tuple(tree())


def documents() -> Iterator[Module]:
    """Every page of the documentation but the glossary, which names the retired words."""
    for path in sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]):
        if path.name not in {"glossary.md", "CHANGELOG.md"}:
            yield Module(path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8"))


def _imports(module: Module) -> Iterator[tuple[int, str]]:
    package = module.name if module.path.endswith("__init__.py") else module.name.rpartition(".")[0]
    for node in module.nodes:
        if isinstance(node, ast.Import):
            yield from ((node.lineno, as_room(alias.name)) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parents = package.split(".")[: len(package.split(".")) - (node.level - 1)] if node.level else []
            base = ".".join([*parents, *([node.module] if node.module else [])])
            yield from ((node.lineno, as_room(f"{base}.{alias.name}")) for alias in node.names)


def as_room(name: str) -> str:
    """A dotted name without the package in which the rooms are installed: `tidegauge.impl.wire` is `impl.wire`."""
    inner = name.removeprefix("tidegauge.")
    return inner if inner.split(".")[0] in ROOMS else name


def imports_go_one_way(module: Module) -> Iterator[str]:
    """tidegauge → {model_tests.harness, spark_check} → {spec, impl, linearizability}, and never back or across."""
    ours = max((room for room in MAY_IMPORT if is_within(module.name, room)), key=len, default=None)
    if ours is None:
        return
    for line, name in module.imports:
        if name.split(".")[0] in ROOMS and not any(is_within(name, allowed) for allowed in MAY_IMPORT[ours]):
            yield f"{module.path}:{line}: {ours} may not import {name}"


def packages_of_impl_import_downwards(module: Module) -> Iterator[str]:
    """apis → broker → {controller, storage} → partition → records; client → wire → records; all → ports."""
    ours = next((room for room in IMPL_MAY_IMPORT if is_within(module.name, room)), None)
    if ours is None:
        return
    for line, name in module.imports:
        if is_within(name, "impl") and not any(is_within(name, allowed) for allowed in IMPL_MAY_IMPORT[ours]):
            yield f"{module.path}:{line}: {ours} may not import {name}"


def packages_of_the_server_import_downwards(module: Module) -> Iterator[str]:
    """apis → broker → transport; a part of a server imports neither a sibling nor what puts the server together."""
    if not module.inside("impl.server") or module.name in COMPOSITION_ROOTS:
        return
    ours = next(package for package in SERVER_MAY_NOT_IMPORT if module.inside(package))
    for line, name in module.imports:
        if any(is_within(name, other) for other in SERVER_MAY_NOT_IMPORT[ours] | ABOVE_THE_SERVER):
            yield f"{module.path}:{line}: {ours} may not import {name}"


def imports_form_no_circle(module: Module) -> Iterator[str]:
    """No module imports itself by way of others, in functions and under TYPE_CHECKING neither."""
    if module in modules() and module.name not in in_circles():
        return
    came_from = dict.fromkeys(imported_modules(module), module.name)
    waiting = list(came_from)
    while waiting:
        name = waiting.pop()
        if name == module.name:
            path = [name]
            while len(path) == 1 or path[-1] != module.name:
                path.append(came_from[path[-1]])
            yield f"{module.path}: a circle of imports: {' → '.join(reversed(path))}"
            return
        for other in import_graph().get(name, frozenset()):
            if other not in came_from:
                came_from[other] = name
                waiting.append(other)


def imported_modules(module: Module) -> frozenset[str]:
    """The modules of the repository that a module imports."""
    found = set()
    for _, name in module.imports:
        while name and name not in module_names():
            name = name.rpartition(".")[0]
        if name and not is_within(module.name, name):  # a package is there before its modules
            found.add(name)
    return frozenset(found)


@cache
def module_names() -> frozenset[str]:
    return frozenset(module.name for module in modules())


@cache
def import_graph() -> dict[str, frozenset[str]]:
    """Every module of the repository -> the modules that it imports."""
    return {module.name: imported_modules(module) for module in modules()}


@cache
def in_circles() -> frozenset[str]:
    """What is left of the modules once those are gone, again and again, that import none that is left."""
    importing: dict[str, list[str]] = {}
    for name, imported in import_graph().items():
        for other in imported:
            importing.setdefault(other, []).append(name)
    left = {name: len(imported) for name, imported in import_graph().items()}
    waiting = [name for name, count in left.items() if not count]
    while waiting:
        name = waiting.pop()
        del left[name]
        for other in importing.get(name, ()):
            left[other] -= 1
            if not left[other]:
                waiting.append(other)
    return frozenset(left)


def a_base_names_no_extension(module: Module) -> Iterator[str]:
    """An extension imports its base; the base works without it, and so does what binds it to a cluster."""
    if not module.inside("spec", "model_tests.harness.cluster"):
        return
    if ".extensions." in module.name or module.inside(*COMPOSED_OF_EXTENSIONS):
        return
    for line, name in module.imports:
        if ".extensions." in f"{name}.":
            yield f"{module.path}:{line}: imports the extension {name}"


def pure_code_imports_no_messages(module: Module) -> Iterator[str]:
    """A pure package knows Kafka's error codes and no message of the wire: handlers translate."""
    if not module.inside(*PURE):
        return
    for line, name in module.imports:
        if (is_within(name, "kio") and not is_within(name, "kio.schema.errors")) or is_within(name, "impl.wire"):
            yield f"{module.path}:{line}: imports {name}"


def pure_code_is_deterministic(module: Module) -> Iterator[str]:
    """Randomness is a generator with a seed that the caller gave; time is the port's, or a number handed in."""
    if not module.inside("spec", "linearizability", "impl") or module.inside("impl.ports"):
        return
    for line, name in module.imports:
        if name.split(".")[0] in CLOCKS_AND_RANDOMNESS and name not in PLAIN_VALUES:
            yield f"{module.path}:{line}: imports {name}"
    for node in module.nodes:
        if isinstance(node, ast.Attribute):
            dotted = ast.unparse(node)
            if re.fullmatch(
                r"random\.(?!Random$)\w+|os\.urandom|(np|numpy)\.random\.(?!Generator$|default_rng$)\w+", dotted
            ):
                yield f"{module.path}:{node.lineno}: uses {dotted}"
        if isinstance(node, ast.Call) and not node.args and not node.keywords:
            called = ast.unparse(node.func)
            if called in {
                "Random",
                "random.Random",
                "default_rng",
                "np.random.default_rng",
                "numpy.random.default_rng",
            }:
                yield f"{module.path}:{node.lineno}: {called}() without a seed"


def specs_and_cores_touch_nothing_outside(module: Module) -> Iterator[str]:
    """A spec and a core are events in, effects out: no I/O, no tasks, no files, no printing."""
    for line, name in module.imports if module.inside(*PURE) else ():
        if name.split(".")[0] in TASKS:
            yield f"{module.path}:{line}: imports {name}"
    if not module.inside("spec", *CORES):
        return
    for line, name in module.imports:
        if name.split(".")[0] in OUTSIDE:
            yield f"{module.path}:{line}: imports {name}"
    for node in module.nodes:
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in {"open", "print", "input"}
        ):
            yield f"{module.path}:{node.lineno}: calls {node.func.id}()"


def production_code_knows_no_bug(module: Module) -> Iterator[str]:
    """A historical bug is a subclass or a patch in the zoo; impl/ has no switch for it and not even its name."""
    if not module.inside("impl"):
        return
    for line, name in module.imports:
        if is_within(name, "spec.bugs") or is_within(name, "model_tests.bugs"):
            yield f"{module.path}:{line}: imports {name} from the bug zoo"
    for line, word in words_of_code(module):
        parts = re.split(r"[_\W]+|(?<=[a-z0-9])(?=[A-Z])", word)
        if word in zoo() or any(part.lower() in {"bug", "bugs", "buggy"} for part in parts):
            yield f"{module.path}:{line}: names a bug: {word}"


def words_of_code(module: Module) -> Iterator[tuple[int, str]]:
    """(line, word) of every identifier, argument, attribute, keyword and literal text that is no docstring."""
    prose = {id(node.value) for node in module.nodes if isinstance(node, ast.Expr)}
    for node in module.nodes:
        match node:
            case ast.Name(id=word) | ast.Attribute(attr=word) | ast.arg(arg=word) | ast.keyword(arg=str(word)):
                yield node.lineno, word
            case ast.FunctionDef(name=word) | ast.AsyncFunctionDef(name=word) | ast.ClassDef(name=word):
                yield node.lineno, word
            case ast.Constant(value=str(word)) if id(node) not in prose:
                yield node.lineno, word


@cache
def zoo() -> frozenset[str]:
    """The names of the historical bugs: the modules of spec/bugs that define one."""
    return frozenset(
        path.stem for path in (ROOT / "spec" / "bugs").rglob("*.py") if "\nBUG = " in path.read_text("utf-8")
    )


def files_are_short(module: Module) -> Iterator[str]:
    lines = module.source.count("\n")
    if lines > LONGEST_FILE:
        yield f"{module.path}: {lines} lines, more than {LONGEST_FILE}"


def functions_are_short(module: Module) -> Iterator[str]:
    for node in module.nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > LONGEST_FUNCTION:
                yield f"{module.path}:{node.lineno}: {node.name} has {lines} lines, more than {LONGEST_FUNCTION}"


def lines_are_short(module: Module) -> Iterator[str]:
    for number, line in enumerate(module.source.splitlines(), 1):
        if len(line) > LONGEST_LINE:
            yield f"{module.path}:{number}: {len(line)} characters, more than {LONGEST_LINE}"


def modules_are_named_after_what_they_do(module: Module) -> Iterator[str]:
    for part in module.name.split("."):
        if part in NO_NAMES:
            yield f"{module.path}: {part!r} says nothing about what is in it"


def modules_say_what_they_are(module: Module) -> Iterator[str]:
    if module.source.strip() and not ast.get_docstring(module.tree):
        yield f"{module.path}: no module docstring"


def nothing_is_left_unfinished(module: Module) -> Iterator[str]:
    for number, line in enumerate(module.source.splitlines(), 1):
        if found := UNFINISHED.search(line):
            yield f"{module.path}:{number}: {found.group()}"


@cache
def retired() -> frozenset[str]:
    """The words, and the exact names in code letters, that the table in docs/glossary.md retires."""
    glossary = (ROOT / "docs" / "glossary.md").read_text("utf-8")
    table = glossary.partition("\n## Retired words\n")[2]
    rows = re.findall(r"^\| (.+?) \|", table, re.MULTILINE)
    return frozenset(word for row in rows if row != "retired" for word in row.split(", "))


def words_are_the_glossarys(module: Module) -> Iterator[str]:
    """No retired word in a name, a docstring, a comment, a message or a path."""
    text = f"{module.path}\n{module.source}"
    words = {word.lower() for word in set(WORD.findall(text))} | {f"`{name}`" for name in set(NAME.findall(text))}
    if words.isdisjoint(retired()):
        return
    for number, line in enumerate([module.path, *module.source.splitlines()]):
        found = [word for word in WORD.findall(line) if word.lower() in retired()]
        found += [name for name in NAME.findall(line) if f"`{name}`" in retired()]
        for word in found:
            yield f"{module.path}:{number}: {word!r} is retired; docs/glossary.md says what to write instead"


def json_is_read_whole(module: Module) -> Iterator[str]:
    """Of a name that an object has twice, Python's reader takes the last and says nothing: each says what it does.

    What impl/ reads it wrote itself, under a CRC or into a checkpoint.
    """
    if not module.inside("spec", "linearizability", "spark_check", "model_tests.harness", "tidegauge"):
        return
    for node in module.nodes:
        if isinstance(node, ast.Call) and re.fullmatch(r"json\.loads?", ast.unparse(node.func)):
            hooks = [ast.unparse(keyword.value) for keyword in node.keywords if keyword.arg == "object_pairs_hook"]
            if hooks != ["each_name_once"]:
                yield f"{module.path}:{node.lineno}: reads JSON without object_pairs_hook=each_name_once"


RULES: tuple[Rule, ...] = (
    imports_go_one_way,
    packages_of_impl_import_downwards,
    packages_of_the_server_import_downwards,
    imports_form_no_circle,
    a_base_names_no_extension,
    pure_code_imports_no_messages,
    pure_code_is_deterministic,
    specs_and_cores_touch_nothing_outside,
    production_code_knows_no_bug,
    files_are_short,
    functions_are_short,
    lines_are_short,
    modules_are_named_after_what_they_do,
    modules_say_what_they_are,
    nothing_is_left_unfinished,
    json_is_read_whole,
    words_are_the_glossarys,
)
