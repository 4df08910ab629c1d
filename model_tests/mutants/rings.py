"""The rings that may kill a mutant, the first one first: each is a list of parts, and a part fails or does not.

Lockstep on cores, lockstep on a simulated cluster, simulated clusters whose traces are validated, then the unit tests
of the mutant's room. A part is a function of its name: its seeds are in it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from enum import Enum
from functools import partial
from itertools import zip_longest
from types import MappingProxyType, ModuleType
from typing import Any, Final
from zlib import crc32

import attrs
import pytest

from tidegauge.linearizability.check import Verdict, check
from tidegauge.model_tests.harness.cores.replication import Roles
from tidegauge.model_tests.harness.cores.stored_log import StoredLog
from tidegauge.model_tests.harness.lockstep.group_walks import TOGETHER_WALKS
from tidegauge.model_tests.harness.lockstep.transaction_walks import WHOLE_TRANSACTION_WALKS
from tidegauge.model_tests.harness.lockstep.walks import WalkPlan
from tidegauge.model_tests.harness.registry import HARNESS, Registration, Side
from tidegauge.model_tests.harness.simulation.group_campaign import simulate_group
from tidegauge.model_tests.harness.simulation.group_options import draw_group
from tidegauge.model_tests.harness.simulation.options import Options, draw, with_many_elections
from tidegauge.model_tests.harness.simulation.simulation import simulate
from tidegauge.model_tests.harness.simulation.transacting_options import draw_transacting
from tidegauge.model_tests.spec.observed import OBSERVED
from tidegauge.model_tests.spec.walked import NAMES, machine_of
from tidegauge.spec.kernel.machine import Machine

SEED: Final = 5
FORBIDDEN_SHARE: Final = 0.25
"""Of the actions of a walk, those before which something is attempted that the specification forbids."""
WALKS: Final = 10
"""Of one machine in one part; a round has so many turns of them on cores, and one on a cluster."""
MORE_WALKS: Final[Mapping[str, int]] = MappingProxyType({"recovery": 40})
"""The same, of a machine whose walks are cheap, and whose rules ask for many things to come together."""
PLANS: Final[Mapping[str, WalkPlan[Any]]] = MappingProxyType(
    {"transactions": WHOLE_TRANSACTION_WALKS, "classic-groups": TOGETHER_WALKS}
)
"""Walks that go further in one machine than those of every run."""
CORES_TURNS: Final = 3
CLUSTER_WALKS: Final = 4
"""Of one machine in one part."""
SEEDS: Final = 4
"""Simulated clusters in one round, as many again in which leaders change often, and as many with a group."""
TRANSACTIONAL_SEEDS: Final = 2
"""Of those with transactions."""
SPEC_TESTS: Final = "model_tests/spec"
_SPECIFICATION: Final = "tidegauge.spec."
LOCKSTEP_TESTS: Final = (
    "model_tests/spec/membership/test_succession.py::"
    "test_the_controller_refuses_a_registration_as_in_the_specification",
    "model_tests/lockstep/test_consumer_group_members.py::test_walks_find_no_difference_and_take_every_action",
    "model_tests/lockstep/test_group_members.py::test_walks_of_members_that_stay_find_no_difference",
    "model_tests/lockstep/test_short_lives.py",
    "model_tests/lockstep/test_recovery.py",
)
"""Lockstep without a part of its own: walks and lives of one kind beside a core, and a rule that is asked beside one.

Tests by their names, or all of a file.
"""


class Ring(Enum):
    """What kills a mutant."""

    CORES = "lockstep on cores"
    CLUSTER = "lockstep on cluster"
    SIMULATION = "simulation"
    UNIT = "unit tests"
    OBSERVED = "observed walks"
    """Of a specification: what tests observe of every machine (`spec/observed.py`), up to the first difference."""
    SPEC = "explorer"
    """Of a specification: what `model_tests/spec` says of its states, properties, counts and wrong rules."""


@attrs.frozen(eq=False)
class Part:
    """A piece of a ring."""

    ring: Ring
    name: str
    check: Callable[[Roles | None], str]
    """What failed, in words, with these classes in their parts or those of production; "" if nothing did."""
    machine: str | None = None
    """The machine of a lockstep."""
    tests_of: str | None = None
    """The file of a test, or one of `LOCKSTEP_TESTS`."""
    after: str | None = None
    """The name of the first part of the same walks: what that one does not run, this one hardly does."""
    runs: frozenset[str] | None = None
    """The files that it may run, from the root, if that is known without coverage."""
    seconds: float = 0.0
    """Of CPU that it takes, where `runs` is known."""


def lockstep_parts(rounds: int) -> Iterator[Part]:
    """Walks of every machine, in turns: a few of each, then more."""
    for turn in range(CORES_TURNS * rounds):
        for one in _bound_to(Side.CORES):
            yield _walks(one.machine, Side.CORES, MORE_WALKS.get(one.machine, WALKS), turn)
        yield _walks("replication", Side.CORES, WALKS, turn, stored=True)
    for turn in range(rounds):
        for one in _bound_to(Side.CLUSTER):
            yield _walks(one.machine, Side.CLUSTER, CLUSTER_WALKS, turn)


def _bound_to(side: Side) -> Iterator[Registration]:
    return (registration for registration in HARNESS if side in registration.sides)


def _walks(machine: str, side: Side, count: int, turn: int, *, stored: bool = False) -> Part:
    def checked(roles: Roles | None) -> str:
        if stored:
            roles = attrs.evolve(Roles() if roles is None else roles, log=StoredLog)
        for number in range(turn * count, (turn + 1) * count):
            failure = often(machine).walk(SEED, number, side=side, roles=roles).failure
            if failure is not None:
                return f"walk {number}: {failure.words}"
        return ""

    ring = Ring.CORES if side is Side.CORES else Ring.CLUSTER

    def name(turn: int) -> str:
        walks = f"walks {turn * count}-{(turn + 1) * count - 1}"
        return f"{ring.value}: {walks} of {machine}{' over stored logs' if stored else ''}"

    return Part(ring, name(turn), checked, machine, after=name(0) if turn else None)


def often(machine: str) -> Registration:
    """The machine's walks with something forbidden before every fourth action."""
    registration = HARNESS[machine]
    plan = PLANS.get(machine) or registration.walk_plan()
    return attrs.evolve(registration, plan=attrs.evolve(plan, forbidden_share=FORBIDDEN_SHARE))


def simulation_parts(rounds: int) -> Iterator[Part]:
    """Seeds, with faults as they are drawn and with many elections; with transactions; with groups."""
    for seed in range(SEEDS * rounds):
        yield _simulated(f"seed {seed}", draw(seed))
        yield _simulated(f"seed {seed} with many elections", with_many_elections(draw(seed)))
    for seed in range(TRANSACTIONAL_SEEDS * rounds):
        yield _simulated(f"seed {seed} with transactions", draw_transacting(seed))
    for seed in range(SEEDS * rounds):
        yield _simulated_group(seed)


def _simulated(name: str, options: Options) -> Part:
    def checked(roles: Roles | None) -> str:
        run = simulate(options)
        if not run.holds:
            return run.failures[0]
        verdicts = check(run.operations)
        return str(verdicts.anomalies) if verdicts.of(options.seed) is Verdict.VIOLATED else ""

    return Part(Ring.SIMULATION, f"{Ring.SIMULATION.value}: {name}", checked)


def _simulated_group(seed: int) -> Part:
    """What coordinators of groups decide is the specification's, and what members saw holds."""

    def checked(roles: Roles | None) -> str:
        return "; ".join(simulate_group(draw_group(seed)).failures)

    return Part(Ring.SIMULATION, f"{Ring.SIMULATION.value}: seed {seed} with a group", checked)


def observed_parts(rounds: int, files: Collection[str]) -> Iterator[Part]:
    """What is observed of each machine that these files make, a part for each kind; then of each that runs one of them.

    The second ones belong to the second round. It is recorded here, in a process without a mutant.
    """
    for name in NAMES:
        made_of = modules_of(machine_of(name))
        runs = frozenset(map(_path_of, made_of))
        if made_by(machine_of(name)) in {file.rpartition("/")[0] for file in files} or (
            rounds > 1 and runs & set(files)
        ):
            for what, lines in OBSERVED.items():
                yield observed(f"{what} of {name}", partial(lines, name), runs)


def observed(name: str, lines: Callable[[], Iterator[str]], runs: frozenset[str]) -> Part:
    """It fails at the first line that is another one; then the test that has the checksum of the lines fails."""
    began = time.process_time()
    recorded = [crc32(line.encode()) for line in lines()]
    seconds = time.process_time() - began

    def checked(roles: Roles | None) -> str:
        now = (crc32(line.encode()) for line in lines())
        differing = (number for number, (one, other) in enumerate(zip_longest(now, recorded)) if one != other)
        number = next(differing, None)
        return "" if number is None else f"line {number} of {name} is another one"

    return Part(Ring.OBSERVED, f"{Ring.OBSERVED.value}: {name}", checked, runs=runs, seconds=seconds)


def made_by(machine: Machine[Any]) -> str:
    """The folder of the last of the classes that a machine is made of."""
    return _path_of(machine.kinds[-1].__module__).rpartition("/")[0]


def modules_of(machine: Machine[Any]) -> set[str]:
    """The modules of the specification that the classes of a machine are of, and what these import."""
    kinds = (*machine.kinds, *machine.action_types, *machine.part_types)
    waiting = [base.__module__ for kind in kinds for base in kind.__mro__]
    found: set[str] = set()
    while waiting:
        module = waiting.pop()
        if module.startswith(_SPECIFICATION) and module not in found:
            found.add(module)
            waiting += map(_module_of, vars(sys.modules[module]).values())
    return found


def _module_of(one: object) -> str:
    """The module that a name stands for, or that what it stands for is defined in."""
    return str(getattr(one, "__name__" if isinstance(one, ModuleType) else "__module__", ""))


def _path_of(module: str) -> str:
    """The file of a module of this package, from the root."""
    return module.partition(".")[2].replace(".", "/") + ".py"


def test_parts(items: list[pytest.Item]) -> Iterator[Part]:
    """A part for each test; those of lockstep and of the specification belong to these rings."""
    for item in items:
        file = item.nodeid if item.nodeid in LOCKSTEP_TESTS else item.nodeid.partition("::")[0]
        yield Part(_ring_of(file), item.nodeid, _test(item), tests_of=file)


def _ring_of(file: str) -> Ring:
    if file in LOCKSTEP_TESTS:
        return Ring.CORES
    return Ring.SPEC if file.startswith(SPEC_TESTS) else Ring.UNIT


def _test(item: pytest.Item) -> Callable[[Roles | None], str]:
    def checked(roles: Roles | None) -> str:
        reports = _Reports()
        item.config.pluginmanager.register(reports)
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
        item.config.pluginmanager.unregister(reports)
        return reports.failed

    return checked


class _Reports:
    """The words of the first report of a test that failed."""

    failed = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self.failed:
            self.failed = str(report.longrepr) or report.when or "failed"
