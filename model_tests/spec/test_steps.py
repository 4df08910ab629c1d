"""What the steps of every machine lead to, on walks: the same states as ever.

No property tells an epoch that is raised by two from one that is raised by one, nor a field that is kept too long. So
each machine has a checksum of what follows in every state. Another one is right where a rule or a state was meant to
change.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pytest

from tidegauge.model_tests.spec.observed import (
    checksum,
    crossed_steps,
    in_models,
    possible_classes,
    refuses_unknown_bounds,
    shape,
    steps,
)
from tidegauge.model_tests.spec.walked import NAMES, machine_of
from tidegauge.spec.registry import REGISTRY

FOLLOW: Final[Mapping[str, str]] = {
    "replication": "e8232792",
    "kip320": "0febcdfa",
    "replication-3.5": "32eb6bc6",
    "kip848": "e325d606",
    "kip848-first": "2ecc3263",
    "transactions-diary": "8795dba7",
    "kraft": "0e116359",
    "pull-raft": "aab698fd",
    "pull-raft-2": "035292cb",
    "kip853": "1063fab4",
    "kip996": "835fa347",
    "reassignment": "0feb0cf4",
    "controlled-shutdown": "36a40952",
    "retention": "cf5763f2",
    "directories": "30af3f6e",
    "damage": "ea418c1a",
    "lost-logs": "43ad57c1",
    "running-damage": "4afb8dc6",
    "late-messages": "36c21d36",
    "unregistering": "73abb881",
    "deletion": "611a7c24",
    "reads": "80048626",
    "settings": "e0bb6428",
    "composed-replication": "9049700d",
    "idempotence": "3178c00f",
    "transactions": "5eac23cf",
    "classic-groups": "4224ce6f",
    "consumer-groups": "d340acdb",
    "group-migration": "a4c51cb8",
    "group-loading": "74a63f20",
    "committed-reads": "ba3aa4ca",
    "unclean-transactions": "7695c3e6",
    "offsets": "45feae72",
    "compaction": "383885c9",
    "transactional-compaction": "8e47786f",
    "recovery": "e1adb0d8",
    "lag": "8d078e0c",
    "administration": "882f7d25",
    "authentication": "01895338",
    "membership": "50d0c8d4",
    "succession": "7170a920",
    "placement": "dc0c58d7",
    "workers": "1c51e645",
    "moves": "4717f6e8",
    "idempotence of one producer": "e7634e0f",
    "idempotence of deleted records": "bd9a7d30",
    "classic groups that commit": "85fea277",
    "group migration of static members": "64d9197b",
    "transactions of version 1": "07ec6312",
    "recovery of logs of all kinds": "e4d42a3d",
    "transactions that a database decides": "83a29a20",
}
"""The checksum of each machine."""
SHAPES: Final[Mapping[str, str]] = {
    "replication": "46728b38",
    "kip320": "f126886f",
    "replication-3.5": "c46fc049",
    "kip848": "517ab550",
    "kip848-first": "b1341421",
    "transactions-diary": "19bfc6eb",
    "kraft": "f99a6352",
    "pull-raft": "34b206b6",
    "pull-raft-2": "50b9800a",
    "kip853": "db126766",
    "kip996": "099d1f28",
    "reassignment": "277e4795",
    "controlled-shutdown": "b3f44fb1",
    "retention": "11c34b04",
    "directories": "65e3c933",
    "damage": "d47be65c",
    "lost-logs": "b100573b",
    "running-damage": "dacf72f5",
    "late-messages": "54b549e0",
    "unregistering": "86962bb8",
    "deletion": "ff9a5389",
    "reads": "2f8e9dd0",
    "settings": "43738d76",
    "composed-replication": "1315c555",
    "idempotence": "59eb52ac",
    "transactions": "94abc629",
    "classic-groups": "c05cfa83",
    "consumer-groups": "8f0c7c30",
    "group-migration": "486307d8",
    "group-loading": "cc9cdfac",
    "committed-reads": "d6e90dda",
    "unclean-transactions": "b50edcbd",
    "offsets": "1c4720bb",
    "compaction": "0e1f303d",
    "transactional-compaction": "996c759b",
    "recovery": "1acf16d2",
    "lag": "64bb4310",
    "administration": "7af6a6bf",
    "authentication": "d5c67729",
    "membership": "62bfbf16",
    "succession": "24324739",
    "placement": "c85938f6",
    "workers": "63ab55f6",
    "moves": "a8e1e263",
    "idempotence of one producer": "de83ca5a",
    "idempotence of deleted records": "ce38b9a5",
    "classic groups that commit": "4627c230",
    "group migration of static members": "9bee4c2c",
    "transactions of version 1": "1a4533cf",
    "recovery of logs of all kinds": "49c80245",
    "transactions that a database decides": "d269fd03",
}
"""The checksum of what each machine lets happen and claims, and with each of its constants a little different."""
CROSSED: Final[Mapping[str, str]] = {
    "replication": "e0c9bcae",
    "kip320": "c981014a",
    "replication-3.5": "cf8ae303",
    "kip848": "d38774a4",
    "kip848-first": "f4acb8b3",
    "transactions-diary": "0e7ada6f",
    "kraft": "afbb2df2",
    "pull-raft": "61144287",
    "pull-raft-2": "deaa068e",
    "kip853": "5c94fbe7",
    "kip996": "e6ffc808",
    "reassignment": "e73d7c4b",
    "controlled-shutdown": "4e454465",
    "retention": "08feb176",
    "directories": "b536530b",
    "damage": "e46622e6",
    "lost-logs": "4499f968",
    "running-damage": "4e45aa6d",
    "late-messages": "60dcc119",
    "unregistering": "c5dc5113",
    "deletion": "7b404f59",
    "reads": "7ce2936c",
    "settings": "94882093",
    "composed-replication": "9bfdc8ac",
    "idempotence": "f3f3dcd1",
    "transactions": "eae2ea62",
    "classic-groups": "efbf669b",
    "consumer-groups": "dafaa78a",
    "group-migration": "ad5aff21",
    "group-loading": "8ffb9910",
    "committed-reads": "ce09a46e",
    "unclean-transactions": "281d0f4e",
    "offsets": "42b6dea1",
    "compaction": "29003681",
    "transactional-compaction": "321acb89",
    "recovery": "99ab6bb7",
    "lag": "274884a3",
    "administration": "88bb8f82",
    "authentication": "966eed01",
    "membership": "9ea87b76",
    "succession": "073af2a9",
    "placement": "25e7d33f",
    "workers": "e2af1f7b",
    "moves": "47357c9b",
    "idempotence of one producer": "ea1e9d48",
    "idempotence of deleted records": "3ad9baf1",
    "classic groups that commit": "f4501e38",
    "group migration of static members": "ebb384b3",
    "transactions of version 1": "5daec203",
    "recovery of logs of all kinds": "6f7374fe",
    "transactions that a database decides": "50553841",
}
"""The checksum of what may happen in crosses (`observed.py`), some of which only longer walks reach, others nothing."""
IN_MODELS: Final[Mapping[str, str]] = {
    "replication": "688b6b80",
    "reassignment": "8b60273f",
    "controlled-shutdown": "e56c70f8",
    "retention": "fe6b3988",
    "directories": "c1d8f828",
    "damage": "a12f63ed",
    "lost-logs": "11e04e5f",
    "running-damage": "4eeddda7",
    "late-messages": "e8aeb70e",
    "unregistering": "1c328d73",
    "deletion": "9871f241",
    "reads": "e926f5f1",
    "settings": "fa1743c7",
    "composed-replication": "704518a0",
    "idempotence": "90a748a5",
    "transactions": "7d291b02",
    "classic-groups": "0b80d7f2",
    "consumer-groups": "f938b00e",
    "group-migration": "f45a362d",
    "lag": "2d27d970",
    "administration": "de73646c",
    "workers": "407f8274",
}
"""The checksum of what may happen, and which properties are false, on walks of the models of each machine."""
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


@pytest.mark.parametrize("name", [registration.name for registration in REGISTRY if registration.models])
def test_steps_in_models_lead_where_they_ever_led(name: str) -> None:
    assert IN_MODELS.get(name) == checksum(in_models(name)), "if a model or a rule is meant to be new, this it is"


@pytest.mark.parametrize("name", NAMES)
def test_steps_of_crosses_lead_where_they_ever_led(name: str) -> None:
    assert CROSSED.get(name) == checksum(crossed_steps(name)), (
        "if a rule is meant to have changed, this is the checksum"
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
