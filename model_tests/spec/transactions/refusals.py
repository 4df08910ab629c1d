"""Every refusal of the machine of transactions: the class of the request, and the errors of its responses.

Walks of the specification attempt all of them and no other one; lockstep sends them to the cores and to a cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

Refused = tuple[str, str]
"""The class of an action, and an error."""

REFUSALS: Final[Mapping[str, tuple[str, ...]]] = {
    "ReceiveInit": ("COORDINATOR_LOAD_IN_PROGRESS", "CONCURRENT_TRANSACTIONS", "PRODUCER_FENCED"),
    "ReceiveAdd": (
        "COORDINATOR_LOAD_IN_PROGRESS",
        "CONCURRENT_TRANSACTIONS",
        "PRODUCER_FENCED",
        "INVALID_PRODUCER_ID_MAPPING",
        "INVALID_TXN_STATE",  # to a transaction that was taken over nothing is added
    ),
    "ReceiveEnd": (
        "NONE",
        "COORDINATOR_LOAD_IN_PROGRESS",
        "CONCURRENT_TRANSACTIONS",
        "PRODUCER_FENCED",
        "INVALID_PRODUCER_ID_MAPPING",
        "INVALID_TXN_STATE",
    ),
    "Verify": (
        "COORDINATOR_LOAD_IN_PROGRESS",
        "CONCURRENT_TRANSACTIONS",
        "PRODUCER_FENCED",
        "INVALID_PRODUCER_ID_MAPPING",
        "INVALID_TXN_STATE",
    ),
    "Append": ("NONE", "INVALID_PRODUCER_EPOCH", "OUT_OF_ORDER_SEQUENCE_NUMBER", "INVALID_TXN_STATE"),
    "WriteMarker": ("INVALID_PRODUCER_EPOCH", "TRANSACTION_COORDINATOR_FENCED"),
}
OF_GROUPS: Final[Mapping[str, tuple[str, ...]]] = {
    "Append": ("ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID"),
    "FetchOffset": ("UNSTABLE_OFFSET_COMMIT",),
}
"""Those of the group's coordinator, which is no core here: a cluster has them."""


def pairs(*tables: Mapping[str, Iterable[str]]) -> set[Refused]:
    """All of the tables."""
    return {(action, error) for table in tables for action, errors in table.items() for error in errors}


EVERY: Final = pairs(REFUSALS, OF_GROUPS)
