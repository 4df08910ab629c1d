"""What a guard allows is all that the machine offers, and what it refuses is attempted: of every machine, on walks.

An action that another state offered is put to the guard too. So a condition that the candidates make true by themselves
is one of the guard all the same: a trace that is replayed, or an implementation in lockstep, asks the guard alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pytest

from tidegauge.model_tests.spec.observed import more_allowed, refused
from tidegauge.model_tests.spec.walked import NAMES, machine_of
from tidegauge.spec.kernel.guarded import GuardedMachine

REFUSED: Final[Mapping[str, str]] = {
    "replication": "160825 51e57c29",
    "kip320": "0 68706635",
    "replication-3.5": "0 dd0db7df",
    "kip848": "0 47239888",
    "kip848-first": "0 47239888",
    "transactions-diary": "0 56782b11",
    "kraft": "0 56782b11",
    "pull-raft": "0 17fff7ab",
    "pull-raft-2": "0 d66c01c2",
    "kip853": "0 a2bfbdc4",
    "kip996": "0 c4854223",
    "reassignment": "156234 f4f73e54",
    "controlled-shutdown": "106688 cd88c9f2",
    "retention": "110417 2d81ce5f",
    "directories": "64412 eeb118be",
    "damage": "106651 44ce6cad",
    "lost-logs": "105619 22717ad6",
    "running-damage": "101685 ee3cd528",
    "late-messages": "112783 cd054e0e",
    "unregistering": "125537 f7b61863",
    "deletion": "60763 6bed4068",
    "reads": "138195 d42faf92",
    "settings": "110784 dd4f7a63",
    "composed-replication": "84208 2ccd38d2",
    "idempotence": "28298 0b5b60f2",
    "transactions": "62003 2edf70dc",
    "classic-groups": "305549 136d3e58",
    "consumer-groups": "194963 bef140aa",
    "group-migration": "256600 46ede10e",
    "group-loading": "525 3b317197",
    "committed-reads": "167878 a2864f85",
    "unclean-transactions": "10231 7d7fcca3",
    "offsets": "2584 b5783787",
    "transactional-compaction": "0 68706635",
    "lag": "42 33564fc7",
    "administration": "63155 bf36e2b0",
    "workers": "0 a2bfbdc4",
    "idempotence of one producer": "10141 0b598e94",
    "idempotence of deleted records": "88195 8dda7912",
    "classic groups that commit": "185763 300c903d",
    "group migration of static members": "130490 af9957da",
    "transactions of version 1": "69968 fd8fa093",
    "transactions that a database decides": "35099 361bfa1a",
}
"""The different requests that are refused on the walks, each once in a state, and for each one more the code of its
error: lockstep sends such. Behind that the checksum of how many they are in each state, and of a few of them."""


@pytest.mark.parametrize("name", NAMES)
def test_what_a_guard_allows_is_offered(name: str) -> None:
    assert not any(more_allowed(name)), "the guard allows what is not offered"


@pytest.mark.parametrize("name", [name for name in NAMES if isinstance(machine_of(name), GuardedMachine)])
def test_so_much_is_refused_on_the_walks(name: str) -> None:
    assert refused(name) == REFUSED.get(name), "if it is meant to offer or to refuse otherwise, this it is"


def test_every_number_of_refusals_is_of_a_machine() -> None:
    assert set(REFUSED) <= set(NAMES)
