"""What the steps of every machine lead to, on walks: the same states as ever.

No property tells an epoch that is raised by two from one that is raised by one, nor a field that is kept too long. So
each machine has a checksum of what follows in every state. Another one is right where a rule or a state was meant to
change.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pytest

from tidegauge.model_tests.spec.observed import checksum, possible_classes, refuses_unknown_bounds, shape, steps
from tidegauge.model_tests.spec.walked import NAMES, machine_of

FOLLOW: Final[Mapping[str, str]] = {
    "replication": "93ed638e",
    "kip320": "9db2caa1",
    "replication-3.5": "337fb206",
    "kip848": "7922dcb4",
    "kip848-first": "24bded1d",
    "transactions-diary": "d401c8be",
    "kraft": "fec3a1d9",
    "pull-raft": "faf342fb",
    "pull-raft-2": "0eb4b9cc",
    "kip853": "2e9d2f64",
    "kip996": "ab15ae86",
    "reassignment": "35ba3e09",
    "controlled-shutdown": "83d52e87",
    "retention": "543bb463",
    "directories": "412bb93c",
    "damage": "5d255447",
    "lost-logs": "5d31269a",
    "running-damage": "97339539",
    "late-messages": "3b4a3408",
    "unregistering": "947b029d",
    "deletion": "02bd0d94",
    "reads": "d3c62b44",
    "settings": "7a3f88e6",
    "composed-replication": "b6b74b15",
    "idempotence": "1c7c0dfa",
    "transactions": "7c5004f8",
    "classic-groups": "021aaacc",
    "consumer-groups": "a95f651c",
    "group-migration": "4324e0e5",
    "group-loading": "794e8d4c",
    "committed-reads": "d89ec9ff",
    "unclean-transactions": "270fd889",
    "offsets": "e9503ccd",
    "compaction": "04f24e4a",
    "transactional-compaction": "b88a7bd3",
    "recovery": "f3cfc572",
    "lag": "2e3e4b2a",
    "administration": "0bc41076",
    "authentication": "7e97f4e2",
    "membership": "f31905ee",
    "succession": "5745455b",
    "placement": "61af5361",
    "workers": "d2dd0a91",
    "moves": "22db05e8",
    "idempotence of one producer": "b115b586",
    "idempotence of deleted records": "622ff2d7",
    "classic groups that commit": "695418d0",
    "group migration of static members": "7fb0e447",
    "transactions of version 1": "be46d447",
    "recovery of logs of all kinds": "5ea46e09",
    "transactions that a database decides": "4471663b",
}
"""The checksum of each machine."""
SHAPES: Final[Mapping[str, str]] = {
    "replication": "7d29ef0a",
    "kip320": "cdfafce5",
    "replication-3.5": "0457d94b",
    "kip848": "07f8be07",
    "kip848-first": "a991b97d",
    "transactions-diary": "ee746592",
    "kraft": "65f3a817",
    "pull-raft": "10d3eb6d",
    "pull-raft-2": "4d1649c2",
    "kip853": "7e5de5c1",
    "kip996": "7ad152b7",
    "reassignment": "fc40fb3e",
    "controlled-shutdown": "7730cbfb",
    "retention": "4833216a",
    "directories": "eee5f108",
    "damage": "5465ef41",
    "lost-logs": "258c40f2",
    "running-damage": "85f91e54",
    "late-messages": "f4aa5ebf",
    "unregistering": "331a9e3d",
    "deletion": "4fc6e68f",
    "reads": "0aaf38bb",
    "settings": "3d9a2823",
    "composed-replication": "b5f736f2",
    "idempotence": "e5affe8b",
    "transactions": "0cbc8fba",
    "classic-groups": "ca7f0d0f",
    "consumer-groups": "72dcb281",
    "group-migration": "c02399b0",
    "group-loading": "43982892",
    "committed-reads": "099d765e",
    "unclean-transactions": "87c09f00",
    "offsets": "eeded2b4",
    "compaction": "d5a48c77",
    "transactional-compaction": "c0b791fe",
    "recovery": "325edcf4",
    "lag": "2c929ebd",
    "administration": "a2d2ad0d",
    "authentication": "a2a7792c",
    "membership": "8bf51c8a",
    "succession": "c5cb74f1",
    "placement": "4371aee5",
    "workers": "be08062a",
    "moves": "463ef085",
    "idempotence of one producer": "b65622c0",
    "idempotence of deleted records": "51e15bec",
    "classic groups that commit": "6e609f36",
    "group migration of static members": "89255f98",
    "transactions of version 1": "9bdd6e6e",
    "recovery of logs of all kinds": "325edcf4",
    "transactions that a database decides": "51752973",
}
"""The checksum of what each machine lets happen and claims, and with each of its constants a little different."""
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
    assert FOLLOW.get(name) == checksum(steps(name)), (
        "if a rule or a state is meant to have changed, this is the checksum"
    )


@pytest.mark.parametrize("name", NAMES)
def test_constants_decide_what_a_machine_lets_happen_and_claims(name: str) -> None:
    assert SHAPES.get(name) == checksum(shape(name)), (
        "if a machine has a new action, property or constant, this is the checksum"
    )


def test_so_many_processes_are_interchangeable() -> None:
    found = {name: count for name in NAMES if (count := machine_of(name).interchangeable)}
    assert found == INTERCHANGEABLE, "if a machine is new, or is meant to have others, these are the numbers"


def test_so_many_classes_of_action_are_possible() -> None:
    found = {name: counts for name in NAMES if (counts := possible_classes(name))}
    assert found == CLASSES, "if a machine has a new action, or constants let another one happen, these are the numbers"


@pytest.mark.parametrize("name", NAMES)
def test_no_machine_takes_a_bound_of_what_it_has_not(name: str) -> None:
    assert refuses_unknown_bounds(name)
