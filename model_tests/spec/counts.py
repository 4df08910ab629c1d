"""How many states and steps the models have that are explored in every run of the tests, and two of deep ones.

A rule that lets more happen, or less, changes them though no property may notice it. They stay the same to the digit
unless a rule is meant to change.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tidegauge.spec.kernel.explorer import Exploration

COUNTS: Final[Mapping[str, tuple[int, int]]] = {
    "reads": (934, 3_069),
    "reassignment-back": (62_011, 260_412),
    "reassignment-crash": (27_901, 96_535),
    "retention-shrink": (4_946, 16_296),
    "retention-unclean": (5_489, 17_830),
    "retention-crash": (21_192, 71_253),
    "settings-unclean": (3_660, 13_140),
    "unregistering": (2_396, 7_289),
    "deletion": (1_977, 6_873),
    "recreation": (519, 1_520),
    "crash": (7_176, 20_740),
    "unclean": (6_472, 20_779),
    "network": (31_572, 139_014),
    "controller": (2_528, 9_305),
    "acks": (8_080, 26_574),
    "groups-cooperative": (3_398, 5_556),
    "groups-hanging": (2_122, 3_276),
    "groups-coordinator": (6_737, 12_724),
    "groups-slow-static": (646, 1_030),
    "groups-growing": (1_096, 1_876),
    "groups-subscriptions": (2_330, 4_040),
    "consumers-hanging": (1_611, 3_352),
    "consumers-coordinator": (2_149, 3_822),
    "consumers-lost-responses": (473, 970),
    "consumers-growing": (596, 1_087),
    "consumers-racks": (538, 959),
    "consumers-interval": (6_330, 14_090),
    "consumers-interval-subscriptions": (4_063, 9_418),
    "consumers-interval-unsubscribing": (623, 1_229),
    "consumers-interval-expression": (521, 1_120),
    "consumers-interval-expressions": (33_150, 92_259),
    "consumers-interval-owners": (12_539, 35_145),
    "consumers-interval-commits": (62_855, 204_408),
    "consumers-subscriptions": (743, 1_314),
    "consumers-expressions": (323, 610),
    "consumers-expressions-due": (2_595, 6_665),
    "consumers-offsets": (1_179, 2_794),
    "consumers-zombie": (371, 612),
    "migration-leaving": (1_917, 3_505),
    "migration-coordinator": (2_936, 5_455),
    "migration-lost-responses": (772, 1_515),
    "migration-offsets": (722, 1_563),
    "migration-disabled": (789, 1_366),
    "migration-downgrade": (547, 936),
    "migration-zombie": (337, 674),
    "migration-static-late": (586, 810),
    "migration-static-failing-over": (273_213, 583_218),
    "migration-static-coming-back": (252_937, 548_870),
    "transactions-two-partitions": (1_145, 2_114),
    "transactions-late-end": (3_721, 6_648),
    "transactions-late-records": (1_956, 3_320),
    "transactions-recovery": (2_563, 4_142),
    "transactions-upgrade": (2_506, 3_813),
    "idempotence-expiry": (1_352, 3_176),
    "idempotence-overtaken": (5_363, 14_130),
    "idempotence-epochs": (8_656, 27_155),
    "idempotence-wrap": (8_759, 15_534),
    "idempotence-without-sequences": (2_377, 5_202),
    "workers-asked": (2_486, 6_910),
    "workers-expelled": (1_554, 4_366),
    "workers-coming-back": (18_670, 75_202),
}
"""Model -> states and steps."""


def counted(found: Exploration[Any]) -> tuple[int, int]:
    """The states and steps of a search."""
    return found.distinct, found.generated
