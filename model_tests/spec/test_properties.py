"""What properties say of states that never happen: crosses, each a state with a piece of another one in it.

No behaviour of a machine as it is tells an invariant from a weaker one, nor a goal from an easier one. Crosses do, and
so each machine has its number: how often its properties and goals are false, of all that they are asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pytest

from tidegauge.model_tests.spec.observed import checksum, false, shown
from tidegauge.model_tests.spec.walked import NAMES

FALSE: Final[Mapping[str, str]] = {
    "replication": "19904 f7b29468",
    "kip320": "5076 b5423d57",
    "replication-3.5": "5572 94b1a04f",
    "kip848": "5754 15553037",
    "kip848-first": "5324 f3754f7d",
    "transactions-diary": "6370 111f1e76",
    "kraft": "2052 596cf421",
    "pull-raft": "2235 61abeb64",
    "pull-raft-2": "2327 71ec3414",
    "kip853": "6228 19af8e77",
    "kip996": "6471 44acaa42",
    "reassignment": "21710 e72ce611",
    "controlled-shutdown": "20009 cdc05f76",
    "retention": "24927 4ecbd20d",
    "directories": "23033 b9e2c1a9",
    "damage": "19895 c5535a9a",
    "lost-logs": "20708 e1cd7090",
    "running-damage": "25820 3d5cbdb6",
    "late-messages": "21302 cacf0ec5",
    "unregistering": "20079 d74ba189",
    "deletion": "22728 7d2185b3",
    "reads": "22518 6018fbe3",
    "settings": "21013 dd8a410f",
    "composed-replication": "39274 f88b6dc5",
    "idempotence": "14244 325352c5",
    "transactions": "20681 fad43eaa",
    "classic-groups": "20464 d149d4ca",
    "consumer-groups": "14020 c26d9685",
    "group-migration": "7612 bf0b30d8",
    "group-loading": "5836 90ae144b",
    "committed-reads": "8617 7787e228",
    "unclean-transactions": "6115 725fc612",
    "offsets": "6978 60063eef",
    "compaction": "7131 03c99d27",
    "transactional-compaction": "7416 075cea50",
    "recovery": "5951 81f7c4c1",
    "lag": "5110 2428f052",
    "administration": "7427 6905863c",
    "authentication": "6201 8177fb97",
    "membership": "7474 ad7b9793",
    "succession": "5145 ac312060",
    "placement": "5301 2eae658a",
    "workers": "7890 b9f38cdc",
    "moves": "6258 2ffa1269",
    "idempotence of one producer": "7063 a2417c25",
    "idempotence of deleted records": "5359 de1c2049",
    "classic groups that commit": "13380 df0837b9",
    "group migration of static members": "5626 fd51002c",
    "transactions of version 1": "12864 4cf5a843",
    "recovery of logs of all kinds": "5748 070b6ea2",
    "transactions that a database decides": "13488 2156f85f",
}
"""How often the properties and goals of a machine are false, of all that they are asked, and the checksum of which."""
SHOWN: Final[Mapping[str, str]] = {
    "replication": "54745bdf",
    "kip320": "66c6c882",
    "replication-3.5": "1edaea32",
    "kip848": "414474e5",
    "kip848-first": "2afa9ca5",
    "transactions-diary": "d9d17b84",
    "kraft": "32beedd7",
    "pull-raft": "5e91881b",
    "pull-raft-2": "1cfe90f6",
    "kip853": "995ab068",
    "kip996": "0b127b5e",
    "reassignment": "2981aee7",
    "controlled-shutdown": "49a21b5d",
    "retention": "3b631270",
    "directories": "c2a9d310",
    "damage": "5066f7b9",
    "lost-logs": "21387ebf",
    "running-damage": "a56a6d9f",
    "late-messages": "33210ef9",
    "unregistering": "ff55d490",
    "deletion": "edb27c4c",
    "reads": "cc3d7291",
    "settings": "d20bb97c",
    "composed-replication": "d4793f5f",
    "idempotence": "34d80762",
    "transactions": "a58b4f50",
    "classic-groups": "4de70785",
    "consumer-groups": "9aff95de",
    "group-migration": "d2bd6a18",
    "group-loading": "28de3daf",
    "committed-reads": "d57b8f8e",
    "unclean-transactions": "acd40ee9",
    "offsets": "e5bce4b7",
    "compaction": "00000000",
    "transactional-compaction": "cbbfdbf2",
    "recovery": "00000000",
    "lag": "00000000",
    "administration": "00000000",
    "authentication": "00000000",
    "membership": "00000000",
    "succession": "00000000",
    "placement": "00000000",
    "workers": "e57027f7",
    "moves": "00000000",
    "idempotence of one producer": "e43bb8ff",
    "idempotence of deleted records": "98cce10d",
    "classic groups that commit": "bf371cca",
    "group migration of static members": "b260cb09",
    "transactions of version 1": "508fb317",
    "recovery of logs of all kinds": "00000000",
    "transactions that a database decides": "a3190f4d",
}
"""The checksum of what a machine shows beside a property that is false; most show nothing."""


@pytest.mark.parametrize("name", NAMES)
def test_properties_are_false_of_so_many_crosses(name: str) -> None:
    assert FALSE.get(name) == false(name), (
        "if the machine is new, or its properties are meant to have changed, this is its number and its checksum"
    )


@pytest.mark.parametrize("name", NAMES)
def test_what_is_shown_where_a_property_is_false(name: str) -> None:
    assert SHOWN.get(name) == checksum(shown(name)), "if a machine is new, or is meant to show otherwise, this it is"
