"""Whatever a specification refuses is sent: each class of action with each error, or it is said why nobody can send it.

This goes through the registry, so that a machine which comes later is asked as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs
import pytest

from tidegauge.model_tests.amounts import amount
from tidegauge.model_tests.harness.cores.replication import CORRECT
from tidegauge.model_tests.harness.cores.steps import ReplicationCores
from tidegauge.model_tests.harness.lockstep.sent_refusals import (
    Refused,
    SentRefusals,
    is_sent,
    places_of,
    sent_refusals,
)
from tidegauge.model_tests.harness.registry import HARNESS, ON_CORES, Registration, Side
from tidegauge.spec.kernel.machine import Action
from tidegauge.spec.registry import REGISTRY
from tidegauge.spec.replication.machine import Replication
from tidegauge.spec.replication.state import State

SEED: Final = 1
LEAST: Final = 4
"""States in which something was attempted before it counts as never sent."""

OF_THE_SHELL: Final = "a core is what a broker has when it has loaded the log: until then the shell responds"
NOBODY_HAS_IT: Final = "no core responds for a replica that its broker has lost or withdrawn: the shell does"
NO_TOPIC_ID: Final = "no core knows a topic's id"
NO_LATE_RESPONSE: Final = "no connection carries a response that belongs to no request"
NO_GROUP: Final = "the group beside the cores is the harness's"

NEVER: Final[Mapping[Side, Mapping[str, Mapping[Refused, str]]]] = {
    Side.CORES: {
        "directories": {("ReceiveFetch", "KAFKA_STORAGE_ERROR"): NOBODY_HAS_IT},
        "composed-replication": {("ReceiveFetch", "KAFKA_STORAGE_ERROR"): NOBODY_HAS_IT},
        "running-damage": {("ReceiveFetch", "KAFKA_STORAGE_ERROR"): NOBODY_HAS_IT},
        "deletion": dict.fromkeys(
            ((kind, "UNKNOWN_TOPIC_ID") for kind in ("ReceiveFetch", "FetchOfFormer", "ProposalOfFormer")), NO_TOPIC_ID
        ),
        "group-loading": dict.fromkeys(
            ((kind, "COORDINATOR_LOAD_IN_PROGRESS") for kind in ("Join", "Leave", "Delete", "Advance")), OF_THE_SHELL
        ),
        "classic-groups": dict.fromkeys(
            ((kind, "COORDINATOR_LOAD_IN_PROGRESS") for kind in ("ReceiveJoin", "ReceiveCommit", "ReceiveLeave")),
            OF_THE_SHELL,
        ),
        "consumer-groups": dict.fromkeys(
            ((kind, "COORDINATOR_LOAD_IN_PROGRESS") for kind in ("ReceiveHeartbeat", "ReceiveCommit", "ReceiveLeave")),
            OF_THE_SHELL,
        ),
        "group-migration": dict.fromkeys(
            ((kind, "COORDINATOR_LOAD_IN_PROGRESS") for kind in ("ReceiveHeartbeat", "ReceiveCommit", "ReceiveLeave")),
            OF_THE_SHELL,
        ),
        "transactions": {
            ("Append", "ILLEGAL_GENERATION"): NO_GROUP,
            ("Append", "UNKNOWN_MEMBER_ID"): NO_GROUP,
            ("FetchOffset", "UNSTABLE_OFFSET_COMMIT"): NO_GROUP,
        },
    },
    Side.CLUSTER: {
        one.machine: dict.fromkeys(
            ((kind, "OK") for kind in ("ReceiveFetchResponse", "ReceiveAlterPartitionResponse")), NO_LATE_RESPONSE
        )
        for one in HARNESS
        if isinstance(REGISTRY.registration(one.machine).machine, Replication) and Side.CLUSTER in one.sides
    },
}
"""Side -> machine -> what its guards refuse and nobody can send there, and why."""

ASKS_FIRST: Final[Mapping[tuple[str, Side], frozenset[Refused]]] = {
    ("transactions", Side.CLUSTER): frozenset(
        ("Append", error) for error in ("ILLEGAL_GENERATION", "OUT_OF_ORDER_SEQUENCE_NUMBER", "UNKNOWN_MEMBER_ID")
    ),
}
"""What few states refuse on the wire, since a leader asks the coordinator first and that refuses it for another reason.

One attempt in 80 is sent: those of many walks are (`test_each_class_of_action_is_refused_with_each_of_its_errors`).
"""

WITHOUT_REFUSALS: Final[Mapping[str, str]] = {
    "workers": "what is refused to a consumer is its group's coordinator's to refuse",
    "recovery": "it is about files, and nobody asks for anything",
    "transactional-compaction": "it is about a log, and nobody asks for anything",
}
"""Bound machines that refuse nothing, and why."""

BOUND: Final = [(one.machine, side) for one in HARNESS for side in one.sides]


def never_of(machine: str, side: Side) -> Mapping[Refused, str]:
    return NEVER[side].get(machine, {})


def walked(registration: Registration, side: Side) -> SentRefusals:
    return sent_refusals(registration, side, SEED, amount(4, deep=60) if side is Side.CORES else amount(1, deep=30))


@pytest.mark.parametrize(
    ("machine", "side"),
    [pytest.param(*one, marks=[pytest.mark.deep] * (one[1] is Side.CLUSTER)) for one in BOUND],
)
def test_each_class_of_action_is_refused_with_each_of_its_errors(machine: str, side: Side) -> None:
    found = walked(HARNESS[machine], side)
    assert found.never(LEAST) <= never_of(machine, side).keys(), "send it (`refuse` of the binding), or say why not"
    assert not found.sent.keys() & never_of(machine, side).keys(), "it is sent"
    assert bool(found.sent or never_of(machine, side)) == (machine not in WITHOUT_REFUSALS)


def sent_from(registration: Registration, side: Side, walks: int) -> tuple[set[Refused], set[Refused]]:
    """What walks of the specification meet, and what of that an implementation is sent at the first place that fits."""
    places = places_of(registration, SEED, walks)
    sent = {pair for pair, found in places.items() if any(is_sent(registration, side, place) for place in found)}
    return set(places), sent


@pytest.mark.parametrize(
    ("machine", "side"),
    [pytest.param(*one, marks=[pytest.mark.deep] * (one[1] is Side.CLUSTER)) for one in BOUND],
)
def test_whatever_walks_of_the_specification_find_refused_is_sent(machine: str, side: Side) -> None:
    """Also what so few states refuse that no walk beside an implementation comes to one."""
    walks = amount(20, deep=200) if side is Side.CORES else 40
    met, sent = sent_from(HARNESS[machine], side, walks)
    seldom = ASKS_FIRST.get((machine, side), frozenset())
    assert met - sent - seldom <= never_of(machine, side).keys(), "send it (`refuse` of the binding), or say why not"
    assert not sent & never_of(machine, side).keys(), "it is sent"


def test_an_offset_that_a_transaction_may_yet_change_is_refused_where_walks_seldom_come() -> None:
    of_group, pair = REGISTRY.machine("transactions-group"), ("FetchOffset", "UNSTABLE_OFFSET_COMMIT")
    places = places_of(HARNESS["transactions"], SEED, 60, only=of_group)[pair]
    assert not any(is_sent(HARNESS["transactions"], Side.CORES, place) for place in places), NO_GROUP
    assert any(is_sent(HARNESS["transactions"], Side.CLUSTER, place) for place in places)


def test_what_nobody_can_send_is_of_bound_machines() -> None:
    assert {(machine, side) for side, machines in NEVER.items() for machine in machines} <= set(BOUND)
    assert WITHOUT_REFUSALS.keys() <= {machine for machine, _ in BOUND}


class Silent(ReplicationCores):
    """A binding that says it can send a preferred election that is refused, and never does."""

    def refuse(self, action: Action, before: State) -> object:  # type: ignore[override]
        return None if action.name == "PreferredElection" else super().refuse(action, before)


def test_a_binding_that_never_sends_what_it_says_it_can_is_found() -> None:
    def bind(machine: Replication, roles: object) -> Silent:
        return Silent(machine, CORRECT, ON_CORES)

    found = sent_refusals(attrs.evolve(HARNESS["replication"], cores=bind), Side.CORES, SEED, 6)
    assert {kind for kind, _ in found.never(LEAST)} == {"PreferredElection"}
