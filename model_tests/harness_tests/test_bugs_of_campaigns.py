"""Every bug of the registry can be switched on in a campaign, or the refusal says why not."""

from __future__ import annotations

from typing import Final

import pytest

from tidegauge.model_tests.harness.registry import HARNESS
from tidegauge.model_tests.harness.verification.bugs_of_campaigns import (
    BUGS_OF,
    ELSEWHERE,
    NO_PART,
    check_bug_of,
    owner_of,
)
from tidegauge.model_tests.harness.verification.campaigning import Clients
from tidegauge.spec.registry import REGISTRY

BUGS: Final = [(one.name, bug.name) for one in REGISTRY for bug in one.bugs]


def refusal(clients: Clients, bug: str) -> str:
    """Why such a campaign cannot have the bug; empty if it can."""
    try:
        check_bug_of(clients, bug)
    except ValueError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(("owner", "bug"), BUGS)
def test_a_campaign_has_the_bug_or_says_why_not(owner: str, bug: str) -> None:
    told = {clients: refusal(clients, bug) for clients in Clients}
    has_campaign = any(owner in machines for machines in BUGS_OF.values())
    assert owner_of(bug) == owner
    for clients, words in told.items():
        assert not words or f"{bug} is a bug of {owner}; simulate{clients.option} switches on others: " in words
    if "" not in told.values():
        assert all(f"tidegauge explore {owner} --bug {bug} shows it" in words for words in told.values() if words)
        of_client = bug in HARNESS.bugs and HARNESS.bug(bug).of_client
        assert bug in ELSEWHERE or owner in NO_PART or not has_campaign or of_client


def test_a_bug_of_a_coordinators_log_is_had_by_the_campaign_that_shows_it() -> None:
    assert not refusal(Clients.GROUPS, "kafka_9235")
    assert not refusal(Clients.TRANSACTIONS, "kafka_17507")
    assert refusal(Clients.PLAIN, "kafka_9235").endswith("simulate --groups has it")


def test_a_bug_that_another_campaign_has_is_told_with_its_option() -> None:
    assert refusal(Clients.PLAIN, "kafka_6119").endswith("simulate --transactions has it")
    assert refusal(Clients.PLAIN, "kafka_9752").endswith("simulate --groups has it")
    for bug in ("kafka_16147", "kafka_19862", "kafka_8587_told"):
        assert refusal(Clients.PLAIN, bug).endswith("simulate --groups has it")
    assert refusal(Clients.GROUPS, "kafka_1211").endswith("simulate has it")


@pytest.mark.parametrize(
    ("bug", "why"),
    [
        ("swaps_at_once", "no core has it"),
        ("kafka_14055", "no campaign cleans a log with transactions"),
        ("lock_outlives_partition", "no client of a campaign shares its records among workers"),
        ("kafka_18227", "it is in no core, but in a client"),
        ("kafka_9823", "it is one of the client, and simulated members are others"),
    ],
)
def test_why_no_campaign_has_a_bug_is_said_in_words(bug: str, why: str) -> None:
    assert why in refusal(Clients.GROUPS, bug)


def test_a_machine_whose_bugs_have_no_part_is_in_no_campaign() -> None:
    assert not NO_PART.keys() & {machine for machines in BUGS_OF.values() for machine in machines}
    assert {owner for owner, bug in BUGS if bug in HARNESS.bugs} >= NO_PART.keys()
