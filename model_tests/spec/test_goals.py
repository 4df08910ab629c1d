"""What a search must have reached takes what its words say: it is reached so soon and no sooner, and only by that."""

from __future__ import annotations

import pytest

from tidegauge.model_tests.spec.goals import GOALS, Reached
from tidegauge.model_tests.spec.shortest import steps_to
from tidegauge.spec.idempotence.machine import Idempotence
from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.kernel.machine import Machine
from tidegauge.spec.lag.machine import Lag
from tidegauge.spec.published.kip320.machine import Kip320
from tidegauge.spec.registry import REGISTRY
from tidegauge.spec.replication.extension import ReplicationExtension
from tidegauge.spec.replication.extensions.damage import Damage
from tidegauge.spec.replication.extensions.deletion import Deletion
from tidegauge.spec.replication.extensions.directories import Directories
from tidegauge.spec.replication.extensions.late import LateMessages
from tidegauge.spec.replication.extensions.lost_logs import LostLogs
from tidegauge.spec.replication.extensions.reads import Reads
from tidegauge.spec.replication.extensions.reassignment import Reassignment
from tidegauge.spec.replication.extensions.retention import Retention
from tidegauge.spec.replication.extensions.settings import Settings
from tidegauge.spec.replication.extensions.shutdown import ControlledShutdown
from tidegauge.spec.replication.extensions.unregistering import Unregistering
from tidegauge.spec.replication.machine import Replication
from tidegauge.spec.replication.state import Acks
from tidegauge.spec.transactions.machine import Transactions


@pytest.mark.parametrize("reached", GOALS, ids=lambda reached: f"{reached.machine.name}: {reached.goal}")
def test_a_goal_is_reached_in_so_many_steps_and_not_without_what_it_takes(reached: Reached) -> None:
    machine, goal, steps = reached.machine, reached.goal, reached.steps
    assert steps_to(machine, goal, most=steps) == steps
    assert steps_to(machine, goal, most=steps + reached.beyond, without=reached.by) is None


def test_every_goal_of_every_machine_has_its_row() -> None:
    goals = {(type(machine), goal) for machine in map(REGISTRY.machine, REGISTRY.names) for goal in machine.sometimes}
    assert {(type(reached.machine), reached.goal) for reached in GOALS} == goals


# --- which goals a machine has: those that its constants let it reach ------------------------------------------------

COMMITS = {"a record is committed", "a producer that waits for all is acknowledged"}
SHRINKS = "the ISR has shrunk"
ELECTS = {SHRINKS, "a later leader has committed", "two brokers think they lead", "a fetch is refused"}
LOSES = "an acknowledged record is lost"


def with_bounds(*extensions: ReplicationExtension, records: int = 1, unclean: int = 0, **bounds: int) -> Replication:
    return Replication(
        max_records=records, unclean_leader_election=bool(unclean), bounds=Bounds(bounds), extensions=extensions
    )


@pytest.mark.parametrize(
    ("machine", "goals"),
    [
        (with_bounds(records=2), COMMITS),
        (Replication(acks=(Acks.LEADER,), bounds=Bounds()), {"a record is committed"}),
        (with_bounds(ShrinkIsr=1, unclean=1), {*COMMITS, SHRINKS}),
        (with_bounds(ShrinkIsr=1, UncleanElection=1), {*COMMITS, SHRINKS}),
        (with_bounds(ShrinkIsr=2, unclean=1), {*COMMITS, SHRINKS, LOSES}),
        (with_bounds(ExpireSession=1), COMMITS | ELECTS),
        (with_bounds(ExpireSession=1, records=2), COMMITS | ELECTS | {"two logs diverge"}),
        (with_bounds(ExpireSession=2), COMMITS | ELECTS),
        (with_bounds(Crash=1, ShrinkIsr=1, unclean=1), {*COMMITS, SHRINKS, LOSES, "a new incarnation is in sync"}),
    ],
)
def test_replication_wants_what_its_bounds_let_it_reach(machine: Replication, goals: set[str]) -> None:
    assert machine.sometimes.keys() == goals


@pytest.mark.parametrize(
    ("extensions", "turned_on", "of_its_own"),
    [
        ((Reassignment((0, 1), ((1, 2),)),), {"StartReassignment": 1}, 2),
        ((Reassignment((0,), ((0, 1), (1,))),), {"StartReassignment": 1}, 4),
        ((Retention(),), {"DeleteRecords": 1}, 3),
        ((Retention(),), {"DeleteRecords": 1, "ShrinkIsr": 1}, 4),
        ((Retention(),), {"DeleteRecords": 1, "ExpireSession": 1}, 4),
        ((ControlledShutdown(),), {"BeginShutdown": 1}, 2),
        ((ControlledShutdown(), Directories()), {"FailDirectory": 1}, 2),
        ((ControlledShutdown(), Damage(), LostLogs()), {"LoseLog": 1}, 2),
        ((LateMessages(),), {"ArriveLate": 1}, 1),
        ((Unregistering(),), {"Unregister": 1}, 2),
        ((Reassignment(), Deletion()), {"DeleteTopic": 1}, 2),
        ((Settings(),), {"ChangeSettings": 1}, 1),
        ((Settings(min_insync_values=(1,)),), {"ChangeSettings": 1}, 0),
    ],
)
def test_an_extension_wants_nothing_that_is_not_turned_on(
    extensions: tuple[ReplicationExtension, ...], turned_on: dict[str, int], of_its_own: int
) -> None:
    quiet = {name: often for name, often in turned_on.items() if name in ("ShrinkIsr", "ExpireSession")}
    without = with_bounds(**quiet).sometimes.keys()
    assert with_bounds(*extensions, **quiet).sometimes.keys() == without
    assert len(with_bounds(*extensions, **turned_on).sometimes.keys() - without) == of_its_own


@pytest.mark.parametrize(
    ("machine", "count"),
    [
        (with_bounds(Reads()), 4),
        (Lag(), 3),
        (Lag(max_records=1), 2),
        (Lag(max_fetches=1), 2),
        (with_bounds(Reads(), PreferredElection=1), 6),
        (with_bounds(Reads(), PreferredElection=1, ExpireSession=1), 10),
        (Kip320(), 5),
        (Kip320(replicas=1), 2),
        (Kip320(max_leader_epoch=0), 3),
        (Kip320(max_records=1), 4),
        (Kip320(max_records=0), 3),
        (Kip320(log_size=0), 3),
        (Idempotence(bounds=Bounds()), 2),
        (Idempotence(bounds=Bounds(), reordering=False), 1),
        (Idempotence(bounds=Bounds(), max_in_flight=1), 1),
        (Idempotence(bounds=Bounds(), reordering=False, max_records=7, sequences=7), 1),
        (Idempotence(bounds=Bounds(Crash=1), reordering=False), 1),
        (Idempotence(bounds=Bounds(), reordering=False, segments=True), 1),
        (Idempotence(bounds=Bounds(LoseConnection=1, GiveUp=1, Expire=1, Elect=1), idempotent=False), 1),
        (Idempotence(bounds=Bounds(Expire=1)), 4),
        (Idempotence(bounds=Bounds(Expire=1), max_records=2), 3),
        (Idempotence(bounds=Bounds(Expire=1), max_attempts=1), 3),
        (Idempotence(bounds=Bounds(Expire=1), max_in_flight=1), 2),
        (Idempotence(bounds=Bounds(Expire=1), reordering=False), 2),
        (Idempotence(bounds=Bounds(Expire=1, Elect=1), reordering=False), 4),
        (Transactions(incarnations=1), 3),
        (Transactions(max_epoch=32766), 5),
        (Transactions(max_epoch=32767), 4),
    ],
)
def test_a_machine_wants_what_its_constants_let_it_reach(machine: Machine[object], count: int) -> None:
    assert len(machine.sometimes) == count
