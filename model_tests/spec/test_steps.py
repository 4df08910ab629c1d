"""What the steps of every machine lead to, on walks: the same states as ever.

No property tells an epoch that is raised by two from one that is raised by one, nor a field that is kept too long. So
each machine has a checksum of states that follow. Another one is right where a rule was meant to change, or a state.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final
from zlib import crc32

import attrs
import pytest

from tidegauge.model_tests.spec.walked import NAMES, every_so_many, machine_of
from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.kernel.codec import encode
from tidegauge.spec.kernel.guarded import EnumeratingMachine
from tidegauge.spec.registry import REGISTRY

EACH: Final = 8
"""Of so many states of a walk, all that follow one count."""
FOLLOW: Final[Mapping[str, str]] = {
    "replication": "ef6f57e6",
    "kip320": "2b5944cd",
    "replication-3.5": "7845f940",
    "kip848": "e4413e71",
    "kip848-first": "21cb32a1",
    "transactions-diary": "cc308bf0",
    "kraft": "5e621322",
    "pull-raft": "82b2d701",
    "pull-raft-2": "58b92e9b",
    "kip853": "a2d02ae8",
    "kip996": "bdbe8226",
    "reassignment": "56a31586",
    "controlled-shutdown": "b9407794",
    "retention": "1b58672e",
    "directories": "094b3703",
    "damage": "ce892b04",
    "lost-logs": "925247c9",
    "running-damage": "060e9a87",
    "late-messages": "65da5999",
    "unregistering": "96b55ad5",
    "deletion": "ec57be2e",
    "reads": "6c143f84",
    "settings": "5563cd31",
    "composed-replication": "1772a973",
    "idempotence": "3de7b6c6",
    "transactions": "0b6e65d3",
    "classic-groups": "9192c865",
    "consumer-groups": "698fa0a5",
    "group-migration": "0b506053",
    "group-loading": "cb186ff9",
    "committed-reads": "90a5d303",
    "unclean-transactions": "56b26a9a",
    "offsets": "a3404d58",
    "compaction": "a696b7b5",
    "transactional-compaction": "02f70cc2",
    "recovery": "8c99bf73",
    "lag": "329122cb",
    "administration": "5bd12b97",
    "authentication": "9a5239dd",
    "membership": "8a999c7e",
    "succession": "92246680",
    "placement": "a7fa76bb",
    "workers": "252bef42",
    "moves": "c098df37",
    "idempotence of one producer": "4c5282c6",
    "idempotence of deleted records": "e1ed4f22",
    "classic groups that commit": "09d74a2b",
    "group migration of static members": "a16c3668",
    "transactions of version 1": "8eb43252",
    "recovery of logs of all kinds": "f534dfc9",
    "transactions that a database decides": "eba42237",
}
"""The checksum of each machine."""
INTERCHANGEABLE: Final[Mapping[str, int]] = {
    "kip320": 3,
    "kraft": 3,
    "pull-raft": 3,
    "pull-raft-2": 3,
    "transactions of version 1": 2,
}
"""How many processes of a machine only their names tell apart, if any do."""

CLASSES: Final[Mapping[str, str]] = {
    "replication": "24 14",
    "reassignment": "25 14",
    "controlled-shutdown": "28 18",
    "retention": "25 15",
    "directories": "33 21",
    "damage": "31 19",
    "lost-logs": "34 22",
    "running-damage": "39 21",
    "late-messages": "27 19",
    "unregistering": "26 15",
    "deletion": "26 15",
    "reads": "26 16",
    "settings": "24 14",
    "composed-replication": "39 23",
    "idempotence": "13 8",
    "transactions": "27 12",
    "classic-groups": "25 10",
    "consumer-groups": "25 6",
    "group-migration": "21 9",
    "committed-reads": "13 14",
    "unclean-transactions": "13 13",
    "administration": "18 18",
    "workers": "12 12",
    "idempotence of one producer": "8",
    "idempotence of deleted records": "9",
    "classic groups that commit": "13",
    "group migration of static members": "12",
    "transactions of version 1": "14",
    "transactions that a database decides": "16",
}
"""How many classes of action each machine lets happen here, and with the constants of the registry if it is there."""


@pytest.mark.parametrize("name", NAMES)
def test_steps_lead_where_they_ever_led(name: str) -> None:
    machine, checksum = machine_of(name), 0
    for state in every_so_many(name, EACH):
        for action, after in machine.successors(state):
            checksum = crc32(json.dumps([encode(action), encode(after)]).encode(), checksum)
    assert FOLLOW.get(name) == f"{checksum:08x}", "if a rule or a state is meant to have changed, this is the checksum"


def test_so_many_processes_are_interchangeable() -> None:
    found = {name: count for name in NAMES if (count := machine_of(name).interchangeable)}
    assert found == INTERCHANGEABLE, "if a machine is new, or is meant to have others, these are the numbers"


def possible_classes(name: str) -> str:
    """How many classes of action a machine lets happen here, and how many with the constants of the registry."""
    every = (machine_of(name), *((REGISTRY.machine(name),) if name in REGISTRY.names else ()))
    return " ".join(str(len(one.possible_types)) for one in every if isinstance(one, EnumeratingMachine))


def test_so_many_classes_of_action_are_possible() -> None:
    found = {name: counts for name in NAMES if (counts := possible_classes(name))}
    assert found == CLASSES, "if a machine has a new action, or constants let another one happen, these are the numbers"


@pytest.mark.parametrize("name", [name for name in NAMES if isinstance(machine_of(name), EnumeratingMachine)])
def test_no_machine_takes_a_bound_of_what_it_has_not(name: str) -> None:
    machine: Any = machine_of(name)
    with pytest.raises(ValueError, match="has no perturbation Tide"):
        attrs.evolve(machine, bounds=Bounds(Tide=1))
