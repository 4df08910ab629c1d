"""How much of each part a verification does: everything that a run depends on, so that it can be had again."""

from __future__ import annotations

import attrs

from tidegauge.model_tests.harness.registry import HARNESS
from tidegauge.spec.idempotence.models import MEDIUM_IDEMPOTENCE, QUICK_IDEMPOTENCE
from tidegauge.spec.registry import REGISTRY
from tidegauge.spec.replication.models import MODELS, NIGHTLY
from tidegauge.spec.replication.models import QUICK as QUICK_MODELS
from tidegauge.spec.transactions.models import NIGHTLY_TRANSACTIONS, QUICK_TRANSACTIONS, TRANSACTION_MODELS

MACHINE = "replication"
"""The machine whose cores and clusters a verification runs, and whose bugs it demonstrates."""
CAMPAIGNS = (MACHINE, "idempotence")
"""The machines whose bugs simulated clusters can have."""
WITH_TRANSACTIONS = (*CAMPAIGNS, "transactions")
"""The same where clients have transactions."""
WITH_GROUPS = ("classic-groups", "consumer-groups", "group-loading", "offsets")
"""The same where clients are members of a group."""
BUG = "kafka_1211"
"""Switched on unless another is named: it shows at every level, in what clients see as well."""

AMOUNTS = 800, 180, 70
"""Walks, examples and seeds of a full plan. With the other parts they take less than 3 minutes on two idle cores."""
QUICK_AMOUNTS = 100, 20, 24
PLAIN_SEEDS = 200
"""Seeds that plain clients have to themselves, used or not."""

MOST_SEED = (1 << 62) - 1
"""A seed is the id of its history, which has 64 bits."""
MOST_SEEDS = 10_000
"""A campaign keeps its histories in memory until all are there."""


@attrs.frozen
class Plan:
    """The amounts, and the seed that all random parts begin from."""

    seed: int
    quick: bool
    models: tuple[str, ...]
    walks: int
    """Random walks of cores beside the specification."""
    examples: int
    """Hypothesis examples of a trio cluster beside the specification."""
    seeds: int
    """Simulated clusters under faults."""
    bug: str
    transactional_seeds: int = 8
    """Simulated clusters beside these whose clients have transactions; their seeds are behind those."""
    group_seeds: int = 6
    """Simulated clusters beside these whose clients are members of a group: of one protocol, or of both in turns."""
    workers: int = 2

    @property
    def command(self) -> str:
        """What runs it again."""
        usual = plan(seed=self.seed, quick=self.quick)
        named = {"walks": self.walks, "examples": self.examples, "seeds": self.seeds, "bug": self.bug}
        other = [f" --{name} {value}" for name, value in named.items() if value != getattr(usual, name)]
        return f"tidegauge verify --seed {self.seed}" + (" --quick" if self.quick else "") + "".join(other)


def check_seeds(seed: int, seeds: int) -> None:
    """Raise ValueError for seeds that no campaign can run."""
    if not 0 <= seed <= MOST_SEED:
        raise ValueError(f"seed {seed}: give a whole number from 0 to {MOST_SEED}")
    if not 1 <= seeds <= MOST_SEEDS:
        raise ValueError(f"seeds {seeds}: give at least 1 and at most {MOST_SEEDS}; the next run goes on from there")


def check_bug(bug: str, command: str, machines: tuple[str, ...] = (MACHINE,)) -> None:
    """Raise ValueError for a bug of none of the machines whose implementation `command` runs."""
    specified = [one.name for machine in machines for one in REGISTRY.registration(machine).bugs]
    implemented = {one.name for machine in machines for one in HARNESS[machine].bugs}
    known = [name for name in specified if name in implemented]
    if bug in known:
        return
    choice = ", ".join(known)
    if bug in specified:
        raise ValueError(f"bug {bug}: only the specification has {bug}: choose one of {choice}")
    if owners := [one.name for one in REGISTRY if bug in {each.name for each in one.bugs}]:
        owner, own = " and of ".join(owners), " and ".join(machines)
        raise ValueError(f"bug {bug}: {bug} is a bug of {owner}; {command} switches on bugs of {own}: {choice}")
    raise ValueError(f"bug {bug}: there is no bug {bug!r}: choose one of {choice}")


def check_amount(name: str, amount: int) -> None:
    """Raise ValueError for a part that would look at nothing."""
    if amount < 1:
        raise ValueError(f"{name} {amount}: give at least 1")


def plan(
    *,
    seed: int = 1,
    quick: bool = False,
    bug: str = BUG,
    walks: int | None = None,
    examples: int | None = None,
    seeds: int | None = None,
) -> Plan:
    """The full plan takes less than 3 minutes on 2 idle cores, the quick one 1. Raises ValueError for what can't be."""
    check_bug(bug, "verify")
    usual = QUICK_AMOUNTS if quick else AMOUNTS
    walks, examples, seeds = (
        own if given is None else given for given, own in zip((walks, examples, seeds), usual, strict=True)
    )
    check_amount("walks", walks)
    check_amount("examples", examples)
    check_seeds(seed, seeds)
    if quick:
        quickest = (*QUICK_MODELS, *QUICK_IDEMPOTENCE, *QUICK_TRANSACTIONS)
        return Plan(seed, True, quickest, walks, examples, seeds, bug, transactional_seeds=1, group_seeds=2)
    models = (
        *(name for name in MODELS if name not in NIGHTLY),
        *(*QUICK_IDEMPOTENCE, *MEDIUM_IDEMPOTENCE),
        *(name for name in TRANSACTION_MODELS if name not in NIGHTLY_TRANSACTIONS),
    )
    return Plan(seed, False, models, walks, examples, seeds, bug)
