"""What a guard allows is all that the machine offers, and what it refuses is attempted: of every machine, on walks.

An action that another state offered is put to the guard too. So a condition that the candidates make true by themselves
is one of the guard all the same: a trace that is replayed, or an implementation in lockstep, asks the guard alone.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from random import Random
from typing import Any, Final
from zlib import crc32

import pytest

from tidegauge.model_tests.spec.walked import NAMES, every_so_many, machine_of, walked
from tidegauge.spec.kernel.codec import encode
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
SAMPLE: Final = 32
"""Of so many requests that are refused, what one says counts too."""
REFUSED: Final[Mapping[str, str]] = {
    "replication": "160825 602c0a6a",
    "kip320": "0 00000000",
    "replication-3.5": "0 00000000",
    "kip848": "0 00000000",
    "kip848-first": "0 00000000",
    "transactions-diary": "0 00000000",
    "kraft": "0 00000000",
    "pull-raft": "0 00000000",
    "pull-raft-2": "0 00000000",
    "kip853": "0 00000000",
    "kip996": "0 00000000",
    "reassignment": "156234 b5c3030c",
    "controlled-shutdown": "106688 2c39065b",
    "retention": "110417 cda128a0",
    "directories": "64412 777d0a17",
    "damage": "106651 438970a6",
    "lost-logs": "105619 8f0dc899",
    "running-damage": "101685 f2e5cc11",
    "late-messages": "112783 1bebfac6",
    "unregistering": "125537 5058bc2b",
    "deletion": "60763 23800b62",
    "reads": "138195 83b1b63c",
    "settings": "110784 a5100291",
    "composed-replication": "84208 b80038f5",
    "idempotence": "28298 95c7c8f6",
    "transactions": "62003 266569c8",
    "classic-groups": "305549 b324e3c6",
    "consumer-groups": "194963 55ef5247",
    "group-migration": "256600 18ab6b7d",
    "group-loading": "525 bfe76f57",
    "committed-reads": "167878 e133cfad",
    "unclean-transactions": "10231 cc41334c",
    "offsets": "2584 9b65681a",
    "transactional-compaction": "0 00000000",
    "lag": "42 a5d61e33",
    "administration": "63155 a67a8c4f",
    "workers": "0 00000000",
    "idempotence of one producer": "10141 4870e911",
    "idempotence of deleted records": "88195 198aa045",
    "classic groups that commit": "185763 70adf9b5",
    "group migration of static members": "130490 206e301a",
    "transactions of version 1": "69968 98cab382",
    "transactions that a database decides": "35099 f0497a44",
}
"""The different requests that are refused on the walks, each once in a state, and for each one more the code of its
error: lockstep sends such. Behind that the checksum of a few of them."""


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


def refused_of(name: str) -> str:
    """How many different requests the machine refuses on its walks, and the checksum of a few.

    An error counts as many times as its code says.
    """
    machine, found, checksum, asked = machine_of(name), 0, 0, 0
    assert isinstance(machine, GuardedMachine)
    for state in every_so_many(name, EACH):
        for kind in machine.attempted_types:
            for action, reason in dict(machine.refused(state, kind)).items():
                found += 1 + abs(reason.error)
                asked += 1
                if asked % SAMPLE == 0:
                    checksum = crc32(json.dumps(encode(action)).encode(), checksum)
    return f"{found} {checksum:08x}"


@pytest.mark.parametrize("name", [name for name in NAMES if isinstance(machine_of(name), GuardedMachine)])
def test_so_much_is_refused_on_the_walks(name: str) -> None:
    assert name in REFUSED, "a machine is new: say how much it refuses"
    assert refused_of(name) == REFUSED[name], "if it is meant to offer or to refuse otherwise, this is the number"


def test_every_number_of_refusals_is_of_a_machine() -> None:
    assert set(REFUSED) <= set(NAMES)
