"""Wrong rules for properties that a machine says in words of its own, under the name that another machine has for them.

An extension, or a machine made of another one, often has an exemption: "as there, but for a repair". That the other
machine's property can fail says nothing of this one. `deciding` tells which function decides a property, and
`test_teeth` asks for a wrong rule of each.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from types import FunctionType
from typing import Any, Final, Protocol, TypeAlias

from tidegauge.model_tests.spec.groups import consumer_mutants
from tidegauge.model_tests.spec.replication import rule_mutants as replication
from tidegauge.model_tests.spec.rule_mutant import RuleMutant, always
from tidegauge.model_tests.spec.teeth import LagsOffTheList, StartsAtZero, without
from tidegauge.model_tests.spec.transactions import rule_mutants as transactions
from tidegauge.spec.bugs.lost_logs import SaysNothing
from tidegauge.spec.bugs.retention import TellsBeforeItIsWritten
from tidegauge.spec.groups.consumer.state import Error
from tidegauge.spec.groups.consumer.timing import ExpireSession
from tidegauge.spec.groups.migration.machine import GroupMigration
from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.kernel.machine import LeadsTo, Machine, constants_of
from tidegauge.spec.replication.composed import everything
from tidegauge.spec.replication.extension import ReplicationExtension
from tidegauge.spec.replication.extensions.damage import Damage
from tidegauge.spec.replication.extensions.deletion import Deletion
from tidegauge.spec.replication.extensions.lost_logs import LostLogs
from tidegauge.spec.replication.extensions.retention import Retention
from tidegauge.spec.replication.extensions.running_damage import RunningDamage
from tidegauge.spec.replication.extensions.shutdown import ControlledShutdown
from tidegauge.spec.replication.machine import Replication
from tidegauge.spec.transactions.unclean import UncleanTransactions

Deciding: TypeAlias = tuple[object, ...]
"""Module and name of a function, and the same of each function that it was made of."""


def deciding(holds: Any) -> Deciding:
    """The function that decides a property; two machines with the same one have the same property."""
    if isinstance(holds, LeadsTo):
        return deciding(holds.when), deciding(holds.then)
    if isinstance(holds, partial):
        return deciding(holds.func)
    cells = (cell.cell_contents for cell in holds.__closure__ or ())
    return holds.__module__, holds.__qualname__, *(deciding(one) for one in cells if isinstance(one, FunctionType))


def properties(machine: Machine[Any]) -> Iterator[tuple[str, Deciding]]:
    """The names of all that must hold in a machine, each with the function that decides it."""
    for named in (machine.invariants, machine.step_invariants, machine.converges, machine.leads_to):
        yield from ((name, deciding(holds)) for name, holds in named.items())


# --- wrong rules of tables, in other machines ------------------------------------------------------------------------


class Mutant(Protocol):
    """A row of a table of wrong rules."""

    @property
    def name(self) -> str: ...
    @property
    def rule(self) -> str: ...
    @property
    def wrong(self) -> Any: ...
    @property
    def model(self) -> Any: ...
    @property
    def violates(self) -> str: ...


def in_another(mutants: Iterable[Mutant], name: str, model: Machine[Any]) -> Machine[Any]:
    """A model with the wrong rule that a table has for another machine."""
    (found,) = (one for one in mutants if one.name == name)
    return RuleMutant(found.name, found.rule, found.wrong, model, found.violates).machine


def unclean(name: str) -> Machine[Any]:
    """A wrong rule of transactions where an election may be unclean."""
    (model,) = (one.model for one in transactions.MUTANTS if one.name == name)
    bounds = Bounds({**{each: model.bounds[each] for each in model.bounds}, "ElectUnclean": 1})
    return in_another(transactions.MUTANTS, name, UncleanTransactions(**{**constants_of(model), "bounds": bounds}))


def partition(*extensions: ReplicationExtension, initial_isr: tuple[int, ...] = (), **bounds: int) -> Replication:
    """Two brokers and one record."""
    return Replication(brokers=2, max_records=1, initial_isr=initial_isr, bounds=Bounds(bounds), extensions=extensions)


def composed(retention: Retention) -> Replication:
    """Everything at once, with another retention."""
    extensions = tuple(retention if isinstance(one, Retention) else one for one in everything())
    return partition(*extensions, Crash=1, DeleteRecords=1)


_LOST: Final = (ControlledShutdown(), Damage(), LostLogs(), RunningDamage())
_STOPPED: Final = (ControlledShutdown(), Damage(), SaysNothing(), RunningDamage())
_BACK: Final = "takes_the_high_watermark_back"
_NEW: Final = (False, False)
_ANY_COMMIT: Final = RuleMutant(
    "TakesAnyCommit",
    "committing_error",
    always(Error.NONE),
    GroupMigration(commits=1, bounds=Bounds(ExpireSession=1)),
    "OwnersCommit",
)

# fmt: off
VARIANTS: Final[tuple[tuple[str, Machine[Any], str], ...]] = (
    ("damage", in_another(replication.MUTANTS, _BACK, partition(ControlledShutdown(), Damage(), Crash=1)),
     "HighWatermarkMonotone"),
    ("running-damage", in_another(replication.MUTANTS, _BACK, partition(*_LOST, Crash=1)), "HighWatermarkMonotone"),
    ("running-damage", partition(*_STOPPED, initial_isr=(0,), BeginShutdown=1, LoseLog=1), "LostLogLeadsLast"),
    ("deletion", partition(LagsOffTheList((0, 1)), Deletion(), ShrinkIsr=1), "ReplicasChangeByReassignment"),
    ("composed-replication", composed(StartsAtZero(written_by_clock=True)), "LogStartMonotone"),
    ("composed-replication", composed(TellsBeforeItIsWritten()), "LowWatermarkIsTrue"),
    ("unclean-transactions", unclean("takes_a_new_epoch_for_a_repeat"), "AcknowledgedRecordsAreKept"),
    ("unclean-transactions", unclean("ends_what_has_not_begun"), "OnlyZombiesFenced"),
    ("unclean-transactions", unclean("decides_again"), "OneOutcome"),
    ("unclean-transactions", unclean("forgets_the_coordinator"), "EpochsRise"),
    ("unclean-transactions", unclean("reads_to_a_marker_that_may_be_lost"), "LastStableOffsetIsMonotone"),
    ("group-migration", in_another(consumer_mutants.MUTANTS, "GivesWhatIsHeld", GroupMigration()), "OneMemberHasIt"),
    ("group-migration", in_another(consumer_mutants.MUTANTS, "LoadsNothing",
                                   GroupMigration(classic=_NEW, bounds=Bounds(FailOver=1))), "OneOwnerInEachEpoch"),
    ("group-migration", _ANY_COMMIT.machine, "OwnersCommit"),
    ("group-migration", without(GroupMigration(bounds=Bounds(Crash=1)), ExpireSession), "who is gone is no member"),
)
# fmt: on
"""Machine, as the registry names it; a wrong one of it; what is violated there."""
