"""What a guard allows is all that the machine offers, and what it refuses is attempted: of every machine, on walks.

An action that another state offered is put to the guard too. So a condition that the candidates make true by themselves
is one of the guard all the same: a trace that is replayed, or an implementation in lockstep, asks the guard alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from random import Random
from typing import Any, Final

import pytest

from tidegauge.model_tests.spec.walked import NAMES, machine_of, walked
from tidegauge.spec.kernel.guarded import GuardedMachine
from tidegauge.spec.kernel.machine import Action, Machine, NotEnabled
from tidegauge.spec.recovery.actions import StartAnew
from tidegauge.spec.replication.extensions.unregistering import LearnBrokerEpoch

OF_A_KIND: Final = 12
"""Actions of each class that every state is asked for."""
MORE_ALLOWED: Final[Mapping[type[Action], str]] = {
    LearnBrokerEpoch: "the explorer has the last registration responded to only; a trace may have an earlier one",
    StartAnew: "the explorer has the log start one offset beyond its end; its leader's may start anywhere beyond",
}
"""Classes of which a guard allows what is not offered, and why."""
EACH: Final = 6
"""Of so many states of a walk, one is asked what is attempted in it."""
REFUSED: Final[Mapping[str, int]] = {
    "replication": 160825,
    "kip320": 0,
    "replication-3.5": 0,
    "kip848": 0,
    "kip848-first": 0,
    "transactions-diary": 0,
    "kraft": 0,
    "pull-raft": 0,
    "pull-raft-2": 0,
    "reassignment": 156234,
    "controlled-shutdown": 106688,
    "retention": 110417,
    "directories": 64412,
    "damage": 106651,
    "lost-logs": 105619,
    "running-damage": 101685,
    "late-messages": 112783,
    "unregistering": 125537,
    "deletion": 60763,
    "reads": 138195,
    "settings": 110784,
    "composed-replication": 84208,
    "idempotence": 28298,
    "transactions": 62003,
    "classic-groups": 305549,
    "consumer-groups": 194963,
    "group-migration": 256600,
    "group-loading": 525,
    "lag": 42,
    "administration": 63155,
    "committed-reads": 167878,
    "unclean-transactions": 10231,
    "offsets": 2584,
    "workers": 0,
    "transactional-compaction": 0,
    "idempotence of one producer": 10141,
    "transactions of version 1": 69968,
    "transactions that a database decides": 35099,
}
"""The different requests that are refused on the walks, each once in a state, and for each one more the code of its
error: lockstep sends such."""


def attempted(machine: Machine[Any], state: Any) -> list[Action]:
    if not isinstance(machine, GuardedMachine):
        return []
    return [action for kind in machine.attempted_types for action in machine.attempts(state, kind)]


def is_enabled(machine: Machine[Any], state: Any, action: Action) -> bool:
    try:
        machine.step(state, action)
    except NotEnabled:
        return False
    return True


@pytest.mark.parametrize("name", NAMES)
def test_what_a_guard_allows_is_offered(name: str) -> None:
    machine, states = machine_of(name), walked(name)
    known: dict[type[Action], dict[Action, None]] = defaultdict(dict)
    for number, (state, enabled) in enumerate(states.items()):
        for action in (*enabled, *attempted(machine, state)) if number % EACH == 0 else enabled:
            known[type(action)][action] = None
    rng = Random(name)
    of_kinds = [one for kind, one in known.items() if kind not in MORE_ALLOWED]
    asked = [one for of_kind in of_kinds for one in rng.sample(list(of_kind), min(OF_A_KIND, len(of_kind)))]
    for state, enabled in states.items():
        offered = set(enabled)
        allowed = [action for action in asked if action not in offered and is_enabled(machine, state, action)]
        assert not allowed, f"the guard allows what is not offered in {state}"


def refused_of(name: str) -> int:
    """How many different requests the machine refuses on its walks; an error counts as many times as its code says."""
    machine, found = machine_of(name), 0
    assert isinstance(machine, GuardedMachine)
    for state in list(walked(name))[::EACH]:
        for kind in machine.attempted_types:
            found += sum(1 + abs(reason.error) for reason in dict(machine.refused(state, kind)).values())
    return found


@pytest.mark.parametrize("name", [name for name in NAMES if isinstance(machine_of(name), GuardedMachine)])
def test_so_much_is_refused_on_the_walks(name: str) -> None:
    assert name in REFUSED, "a machine is new: say how much it refuses"
    assert refused_of(name) == REFUSED[name], "if it is meant to offer or to refuse otherwise, this is the number"


def test_every_number_of_refusals_is_of_a_machine() -> None:
    assert set(REFUSED) <= set(NAMES)
