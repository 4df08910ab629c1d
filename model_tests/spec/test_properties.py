"""What properties say of states that never happen: crosses, each a state with a piece of another one in it.

No behaviour of a machine as it is tells an invariant from a weaker one, nor a goal from an easier one. Crosses do, and
so each machine has its number: how often its properties and goals are false, of all that they are asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pytest

from tidegauge.model_tests.spec.observed import false, much_shown
from tidegauge.model_tests.spec.walked import NAMES

FALSE: Final[Mapping[str, str]] = {
    "replication": "9800 d0d0c866",
    "kip320": "2599 09a90d02",
    "replication-3.5": "2651 3035b4aa",
    "kip848": "2745 4072b279",
    "kip848-first": "2694 64553aca",
    "transactions-diary": "3221 595b4177",
    "kraft": "974 58589ce5",
    "pull-raft": "1123 a2b9543c",
    "pull-raft-2": "1187 9526a0f6",
    "kip853": "3046 18fbe624",
    "kip996": "3197 d4003714",
    "reassignment": "10730 2a6729bd",
    "controlled-shutdown": "9801 d822ecb6",
    "retention": "12156 43a912de",
    "directories": "11314 7ce46824",
    "damage": "9758 cad9a746",
    "lost-logs": "10214 73847230",
    "running-damage": "12809 65642e5b",
    "late-messages": "10491 99449c9d",
    "unregistering": "9841 eddcb96a",
    "deletion": "11150 285eb2d5",
    "reads": "11032 139b821d",
    "settings": "10414 9d249a19",
    "composed-replication": "19570 52e6914d",
    "idempotence": "6940 eebc20e1",
    "transactions": "10060 f21a7596",
    "classic-groups": "10213 a4657e28",
    "consumer-groups": "6913 4ea0fc9b",
    "group-migration": "3716 7e526402",
    "group-loading": "2894 89d70ffa",
    "committed-reads": "4006 6ae7ab63",
    "unclean-transactions": "2778 fdf34994",
    "offsets": "3393 f3d76935",
    "compaction": "3470 f5b3d380",
    "transactional-compaction": "3632 6e4a3b0e",
    "recovery": "2940 627a17fd",
    "lag": "2525 d1a2335d",
    "administration": "3614 68bbeccd",
    "authentication": "3036 3d734d59",
    "membership": "3784 ffe3ed4b",
    "succession": "2682 0d9d8d31",
    "placement": "2679 96c33469",
    "workers": "3946 5d8f6493",
    "moves": "3108 bf57cf19",
    "idempotence of one producer": "3236 0bd4a965",
    "idempotence of deleted records": "2292 e9f443c6",
    "classic groups that commit": "6518 07b02fe4",
    "group migration of static members": "2701 0664a2c3",
    "transactions of version 1": "6120 b119a8ad",
    "recovery of logs of all kinds": "2896 432f4e88",
    "transactions that a database decides": "6654 692e496e",
}
"""How often the properties and goals of a machine are false, of all that they are asked, and the checksum of which."""
SHOWN: Final[Mapping[str, str]] = {
    "replication": "28910 9be7a672",
    "replication-3.5": "14406 7e425ec9",
    "kip848": "2040 119f2312",
    "kip848-first": "1632 ae28ad8a",
    "transactions-diary": "1089 d539497a",
    "kraft": "2440 63d11a75",
    "pull-raft": "1120 a84b894f",
    "pull-raft-2": "1208 0ccc3b64",
    "kip853": "2430 8b72f4fc",
    "kip996": "3570 6ebf95d0",
    "reassignment": "41904 f1796852",
    "controlled-shutdown": "25740 41ac5334",
    "retention": "43537 5e719eb3",
    "directories": "19392 db3e1f85",
    "damage": "25830 24b1a750",
    "lost-logs": "28128 8f5b8d22",
    "running-damage": "29784 952ed3b7",
    "late-messages": "24780 14bdd58c",
    "unregistering": "26280 adcc2e5b",
    "deletion": "20874 d583690b",
    "reads": "30928 56def681",
    "settings": "24444 29f7c62f",
    "composed-replication": "52992 a5d31109",
    "idempotence": "13008 22cd9153",
    "transactions": "15792 b6465206",
    "classic-groups": "20376 b53275ea",
    "consumer-groups": "27645 113a6e1a",
    "group-migration": "14600 f43ca678",
    "group-loading": "564 624dc2ea",
    "committed-reads": "29512 10d09bd3",
    "unclean-transactions": "1965 4d9620ae",
    "offsets": "4520 13a19d8e",
    "transactional-compaction": "2610 2c2d6981",
    "workers": "1660 82411828",
    "idempotence of one producer": "8316 c9cb35b9",
    "idempotence of deleted records": "10836 0aff6c29",
    "classic groups that commit": "9120 cc4bcc0c",
    "group migration of static members": "2960 ad1280a9",
    "transactions of version 1": "8715 4cd39e57",
    "transactions that a database decides": "6103 26d74b10",
}
"""How many things a machine shows beside a property that is false, and the checksum of it; most show none."""


@pytest.mark.parametrize("name", NAMES)
def test_properties_are_false_of_so_many_crosses(name: str) -> None:
    assert FALSE.get(name) == false(name), (
        "if the machine is new, or its properties are meant to have changed, this is its number and its checksum"
    )


def test_so_much_is_shown_where_a_property_is_false() -> None:
    found = {name: shown for name in NAMES if not (shown := much_shown(name)).startswith("0 ")}
    assert found == SHOWN, "if a machine is new, or is meant to show otherwise, these are the numbers"
