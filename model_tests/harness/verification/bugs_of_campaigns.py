"""Which campaign can have which bug, and why some bugs are in none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tidegauge.model_tests.bugs import offsets, transactions
from tidegauge.model_tests.harness.registry import HARNESS
from tidegauge.model_tests.harness.verification.campaigning import Clients
from tidegauge.model_tests.harness.verification.plan import CAMPAIGNS, WITH_GROUPS, WITH_TRANSACTIONS, check_bug
from tidegauge.spec.registry import REGISTRY

BUGS_OF: Final[Mapping[Clients, tuple[str, ...]]] = {
    Clients.PLAIN: CAMPAIGNS,
    Clients.TRANSACTIONS: WITH_TRANSACTIONS,
    Clients.GROUPS: WITH_GROUPS,
    Clients.EXACTLY_ONCE: WITH_GROUPS,
}
"""The machines whose bugs such a campaign can have."""
NO_PART: Final[Mapping[str, str]] = {
    "transactional-compaction": "no campaign cleans a log with transactions",
    "workers": "no client of a campaign shares its records among workers",
}
"""Machines whose bugs the implementation has and no campaign, and why."""
ELSEWHERE: Final[Mapping[str, str]] = {
    bug: whose
    for bug, whose in {**transactions.WITHOUT_A_CORE, **offsets.WITHOUT_A_CORE}.items()
    if bug not in HARNESS.bugs
}
"""Bugs that no part of a campaign has, and whose they are."""
ALSO: Final[Mapping[str, Clients]] = {"kafka_17507": Clients.TRANSACTIONS}
"""Bugs of machines of groups that take offsets in transactions to show -> the campaign that has those."""


def owner_of(bug: str) -> str | None:
    """The machine that has the bug in the specification; None if none has."""
    return next((one.name for one in REGISTRY if bug in {each.name for each in one.bugs}), None)


def check_bug_of(clients: Clients, bug: str | None) -> None:
    """Raise ValueError, with the reason in words, for a bug that such a campaign cannot have."""
    if bug is None or ALSO.get(bug) is clients:
        return
    owner = owner_of(bug)
    if owner is not None and (why := why_not(bug, owner, clients)):
        raise ValueError(f"bug {bug}: {bug} is a bug of {owner}; simulate{clients.option} switches on others: {why}")
    check_bug(bug, f"simulate{clients.option}", BUGS_OF[clients])


def why_not(bug: str, owner: str, clients: Clients) -> str:
    """Why such a campaign cannot have a bug of a machine; empty if it can, or if only the specification has it."""
    shown = f"tidegauge explore {owner} --bug {bug} shows it"
    if bug in ELSEWHERE:
        return f"it is in no core, but in {ELSEWHERE[bug]}: {shown}"
    if owner in NO_PART:
        return f"{NO_PART[owner]}: {shown}"
    having = [one for one in Clients if owner in BUGS_OF[one]]
    if not having:
        return f"no core has it: {shown}"
    if owner in WITH_GROUPS and bug in HARNESS.bugs and HARNESS.bug(bug).of_client:
        return f"it is one of the client, and simulated members are others: {shown}"
    return "" if clients in having else f"simulate{having[0].option} has it"
