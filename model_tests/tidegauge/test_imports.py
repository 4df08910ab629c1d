"""What importing the package's face does not load, and that it is loaded by what needs it.

A program that embeds a cluster pays for its import in every run of its tests. A cluster that only produces and fetches
needs the handlers of a few APIs; the others, and all that few clusters use, are imported by a function, or by a table
of names. No test here takes the time: a module is loaded, or it is not.
"""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import pytest

import tidegauge
from tidegauge.__main__ import COMMANDS, command
from tidegauge.impl.server.broker_handlers import BROKER_HANDLERS
from tidegauge.impl.server.controller.handlers import CONTROLLER_HANDLERS
from tidegauge.impl.server.transport.handlers import Deferred
from tidegauge.impl.wire.apis import ApiKey

IMPORT = """
import sys
from tidegauge import Cluster, running_cluster
print(*sys.modules)
"""

PRODUCE_AND_FETCH = """
import sys, trio
from kio.schema.list_transactions.v2.request import ListTransactionsRequest
from trio.testing import MockClock
from tidegauge import Cluster

async def main():
    async with Cluster(brokers=1, seed=1) as cluster, cluster.client() as client:
        await cluster.create_topic("orders")
        await client.produce("orders", b"first")
        await client.fetch("orders", 0)
        print(*sys.modules)
        await client.ask_once(ListTransactionsRequest(state_filters=(), producer_id_filters=()))
        print(*sys.modules)

trio.run(main, clock=MockClock(autojump_threshold=0))
"""

COMMAND_LINE = """
import sys
from tidegauge.__main__ import app_for
app_for([{!r}])
print(*sys.modules)
"""

ROOT = Path(tidegauge.__file__).parent

AT_ONCE = {
    "broker": {ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.METADATA},
    "controller": {ApiKey.FETCH, ApiKey.BROKER_REGISTRATION, ApiKey.BROKER_HEARTBEAT},
}
"""The APIs that every cluster serves from its start, and that must not wait for an import."""

MESSAGES = {
    "api_versions",
    "broker_heartbeat",
    "broker_registration",
    "errors",
    "metadata",
    "request_header",
    "response_header",
    "sasl_authenticate",
    "sasl_handshake",
    "types",
}
"""kio's families of messages that a start needs; the nodes log in at each other."""

FOR_FEW = ("argparse", "cryptography", "difflib", "email", "hypothesis", "numpy", "pyarrow", "pytest", "zipfile")

LOADED_ANYWAY = {"asyncio"}
"""What a function imports though the face has loaded it: kio does, this project only where it needs it."""


@cache
def modules_after(program: str) -> tuple[frozenset[str], ...]:
    """The modules that a program has loaded whenever it prints them, in a fresh interpreter."""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return tuple(frozenset(line.split()) for line in done.stdout.splitlines())


def families(table: Mapping[ApiKey, object]) -> dict[str, set[ApiKey]]:
    """The modules of the handlers that are imported when they are asked for -> their APIs."""
    found: dict[str, set[ApiKey]] = {}
    for key, registered in table.items():
        if isinstance(registered, Deferred):
            found.setdefault(f"tidegauge.impl.server.{registered.module}", set()).add(key)
    return found


@pytest.mark.parametrize(("server", "table"), [("broker", BROKER_HANDLERS), ("controller", CONTROLLER_HANDLERS)])
def test_importing_the_face_loads_the_handlers_of_those_apis_only_that_every_cluster_serves(
    server: str, table: Mapping[ApiKey, object]
) -> None:
    assert {key for key, registered in table.items() if not isinstance(registered, Deferred)} == AT_ONCE[server]
    (loaded,) = modules_after(IMPORT)
    assert sorted(families(table).keys() & loaded) == []


def test_importing_the_face_loads_the_messages_of_a_start_only() -> None:
    (loaded,) = modules_after(IMPORT)
    assert {name.split(".")[2] for name in loaded if name.startswith("kio.schema.")} == MESSAGES


def test_importing_the_face_loads_nothing_that_few_clusters_use() -> None:
    (loaded,) = modules_after(IMPORT)
    assert sorted(loaded.intersection(FOR_FEW)) == []


class Later(NamedTuple):
    """An import in a function: the module with the function, the line, and what is imported."""

    importer: str
    line: int
    module: str
    name: str
    """"": the module itself."""

    @property
    def target(self) -> str:
        """The module that is loaded: `name` may be one."""
        package = find_spec(self.module)
        assert package is not None, self
        inner = f"{self.module}.{self.name}"
        has_modules = package.submodule_search_locations is not None
        return inner if self.name and has_modules and find_spec(inner) is not None else self.module


@cache
def imports_in_functions(room: str) -> tuple[Later, ...]:
    """Every import in a function of a room of the project."""
    found: list[Later] = []
    for path in sorted((ROOT / room).rglob("*.py")):
        importer = ".".join(("tidegauge", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__")
        functions = (ast.FunctionDef, ast.AsyncFunctionDef)
        for function in (node for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, functions)):
            for node in ast.walk(function):
                if isinstance(node, ast.Import):
                    found += [Later(importer, node.lineno, alias.name, "") for alias in node.names]
                elif isinstance(node, ast.ImportFrom) and node.module is not None:
                    found += [Later(importer, node.lineno, node.module, alias.name) for alias in node.names]
    return tuple(found)


def test_what_a_loaded_function_imports_is_not_loaded_before_it_is_called() -> None:
    """An import in a function says that most programs do without; somewhere else it would be loaded all the same."""
    (loaded,) = modules_after(IMPORT)
    later = [one for one in imports_in_functions("impl") if one.importer in loaded]
    assert len(later) > 30
    vain = [one for one in later if one.target in loaded and one.target not in LOADED_ANYWAY]
    assert not vain, "import these at the head of the file, or nowhere there: " + ", ".join(map(str, vain))


@pytest.mark.parametrize("room", ["impl", "spec", "linearizability"])
def test_what_a_function_imports_is_there(room: str) -> None:
    for one in imports_in_functions(room):
        module = import_module(one.target)
        assert not one.name or one.target.endswith(f".{one.name}") or hasattr(module, one.name), one


def test_a_family_of_apis_is_loaded_by_its_first_request() -> None:
    after, then = modules_after(PRODUCE_AND_FETCH)
    known = families(BROKER_HANDLERS) | families(CONTROLLER_HANDLERS)
    assert sorted(known.keys() & after) == [
        "tidegauge.impl.server.apis.topics",
        "tidegauge.impl.server.controller.topics",
    ]
    asked = [family for family in known if family in then - after]
    assert asked == ["tidegauge.impl.server.apis.transactions"]
    assert ApiKey.LIST_TRANSACTIONS in known[asked[0]]


COORDINATORS = ("tidegauge.impl.coordinators.groups.", "tidegauge.impl.coordinators.transactions.")
NAMES = {
    "tidegauge.impl.coordinators.groups.consumer",
    "tidegauge.impl.coordinators.groups.consumer.assignor_names",
    "tidegauge.impl.coordinators.groups.migration",
    "tidegauge.impl.coordinators.groups.migration.policy",
}
"""What settings name of coordinators."""


def test_a_coordinator_is_loaded_by_its_first_request() -> None:
    """Each kind by its own: ListTransactions asks for transactions, and no group comes with them."""
    after, then = modules_after(PRODUCE_AND_FETCH)
    assert {name for name in after if name.startswith(COORDINATORS)} == NAMES
    made = {name for name in then - after if name.startswith(COORDINATORS)}
    assert "tidegauge.impl.coordinators.transactions.coordinator" in made
    assert [name for name in made if ".groups." in name] == []


def test_the_help_shows_the_summary_of_every_command_and_imports_none() -> None:
    (loaded,) = modules_after(
        "import sys\nfrom tidegauge.__main__ import app_for\napp_for(['--help'])\nprint(*sys.modules)"
    )
    assert [name for name in loaded if name.startswith(("tidegauge.commands.", "tidegauge.spec", "numpy"))] == []
    for name, known in COMMANDS.items():
        written = inspect.getdoc(command(name)) or ""
        assert " ".join(written.partition("\n\n")[0].split()) == known.summary


def test_a_command_is_imported_when_it_is_named() -> None:
    (loaded,) = modules_after(
        "import sys\nfrom tidegauge.__main__ import app_for\napp_for(['strays'])\nprint(*sys.modules)"
    )
    assert [name for name in loaded if name.startswith("tidegauge.commands.")] == ["tidegauge.commands.strays"]
