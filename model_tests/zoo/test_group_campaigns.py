"""Campaigns find each bug of a coordinator of groups by the seed that the docs say; every bug is in such a table."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from tidegauge.model_tests.harness.registry import HARNESS
from tidegauge.model_tests.harness.verification.bugs_of_campaigns import check_bug_of
from tidegauge.model_tests.harness.verification.campaigning import Clients, ran_group
from tidegauge.model_tests.harness.verification.plan import WITH_GROUPS
from tidegauge.model_tests.zoo import campaigns, transaction_campaigns
from tidegauge.model_tests.zoo.group_campaigns import FOUND_BY, NOT_FOUND, OF_CLIENT
from tidegauge.spec.registry import REGISTRY

EXTENDING: Final = Path(__file__).parents[2] / "docs" / "extending.md"


def is_told(bug: str) -> bool:
    """Whether a campaign with groups has the bug switched on when it is asked to."""
    try:
        check_bug_of(Clients.GROUPS, bug)
    except ValueError:
        return False
    return True


def test_of_every_bug_of_groups_the_table_says_where_campaigns_find_it_or_why_they_do_not() -> None:
    bugs = {bug.name for machine in WITH_GROUPS for bug in HARNESS[machine].bugs}
    assert FOUND_BY.keys() | NOT_FOUND.keys() == bugs
    assert not FOUND_BY.keys() & NOT_FOUND.keys()
    assert all(map(is_told, FOUND_BY)), "each can be switched on"
    of_clients = {bug for bug in bugs if HARNESS.bug(bug).of_client}
    assert of_clients == {bug for bug, why in NOT_FOUND.items() if why == OF_CLIENT}


def test_every_bug_that_a_campaign_can_have_is_in_a_table_of_campaigns() -> None:
    tables = {**campaigns.FOUND_BY, **transaction_campaigns.FOUND_WITHIN, **transaction_campaigns.NOT_FOUND}
    for clients in Clients:
        for bug in REGISTRY.bugs:
            try:
                check_bug_of(clients, bug)
            except ValueError:
                continue
            assert bug in {**tables, **FOUND_BY, **NOT_FOUND}, (
                f"simulate{clients.option} --bug {bug}: say what it finds"
            )


def test_the_docs_say_which_seed_finds_each_bug() -> None:
    told: dict[str, int] = {}
    for line in EXTENDING.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if re.fullmatch(r"`\w+`", cells[0]) and (seed := next(filter(None, map(seed_of, cells[1:])), None)):
            told[cells[0].strip("`")] = seed
    assert {bug: told.get(bug) for bug in FOUND_BY} == FOUND_BY


def seed_of(cell: str) -> int | None:
    """The seed in a cell that begins with one; None in any other."""
    found = re.match(r"(\d+)(?=$| \()", cell)
    return int(found[1]) if found else None


@pytest.mark.deep
@pytest.mark.parametrize("bug", FOUND_BY)
def test_the_seed_finds_the_bug_and_holds_without_it(bug: str) -> None:
    assert ran_group(FOUND_BY[bug], bug).failures, f"{bug} does not show in seed {FOUND_BY[bug]}"
    assert not ran_group(FOUND_BY[bug]).failures, f"seed {FOUND_BY[bug]} fails without {bug}, too"
