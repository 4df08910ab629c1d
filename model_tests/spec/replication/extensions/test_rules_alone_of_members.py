"""Rules of brokers that shut down or were removed asked alone, of settings that change, and of what damage leaves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import pytest

from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.kernel.guarded import Refusal
from tidegauge.spec.kernel.parts import with_part
from tidegauge.spec.replication.actions import Append
from tidegauge.spec.replication.extension import ReplicationExtension
from tidegauge.spec.replication.extensions.damage import Damage, Damaged
from tidegauge.spec.replication.extensions.lost_logs import LostLogs
from tidegauge.spec.replication.extensions.reassignment import Reassignment, ReplicaList
from tidegauge.spec.replication.extensions.retention import LogStart
from tidegauge.spec.replication.extensions.running_damage import (
    RepairWhileRunning,
    RunningDamage,
    Withdrawn,
    has_nothing_to_read,
)
from tidegauge.spec.replication.extensions.settings import ChangeSettings, KnownSettings, Settings, TopicSettings
from tidegauge.spec.replication.extensions.shutdown import (
    BeginShutdown,
    CleanStop,
    ControlledShutdown,
    GrantShutdown,
    ShuttingDown,
    still_waiting,
)
from tidegauge.spec.replication.extensions.unregistering import Unregistered, Unregistering
from tidegauge.spec.replication.faults import with_session
from tidegauge.spec.replication.machine import Replication
from tidegauge.spec.replication.rules import ReplicationRules
from tidegauge.spec.replication.state import (
    NONE,
    Controller,
    Error,
    FetchRequest,
    Record,
    RemoteReplica,
    Replica,
    Session,
    State,
)

MACHINE = Replication(brokers=3, extensions=(ControlledShutdown(),), bounds=Bounds(BeginShutdown=1))
STOPPING = with_part(Session(), ShuttingDown(asked=True))


def initial(machine: Replication = MACHINE) -> State:
    return next(iter(machine.initial()))


def controller(
    *stopping: int, isr: tuple[int, ...] = (0, 1, 2), fenced: tuple[int, ...] = (), **changes: Any
) -> Controller:
    sessions = [STOPPING if broker in stopping else Session() for broker in range(3)]
    for broker in fenced:
        sessions[broker] = attrs.evolve(sessions[broker], fenced=True)
    return attrs.evolve(initial().controller, sessions=tuple(sessions), isr=isr, **changes)


# --- brokers that shut down ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("isr", "stopping", "fenced", "unclean", "elected"),
    [
        ((0, 1), (0,), (), False, (1, False)),
        ((0, 1), (0, 1), (), False, (0, False)),
        ((0,), (0,), (), True, (0, False)),
        ((0,), (0,), (0,), False, (NONE, False)),
        ((0,), (0,), (0,), True, (1, True)),
        ((), (0,), (), True, (1, True)),
        ((2,), (2,), (0, 1), False, (2, False)),
    ],
)
def test_a_broker_that_shuts_down_leads_as_the_last_of_the_isr(
    isr: tuple[int, ...],
    stopping: tuple[int, ...],
    fenced: tuple[int, ...],
    elected: tuple[int, bool],
    *,
    unclean: bool,
) -> None:
    now = controller(*stopping, isr=isr, fenced=fenced, last_known_leader=NONE)
    assert MACHINE.elect(now, unclean=unclean) == elected


@pytest.mark.parametrize(
    ("stopping", "isr", "broker_epoch", "may"),
    [
        ((), (0,), 0, True),
        ((1,), (0,), 0, False),
        ((1,), (0, 1), 0, True),
        ((), (0,), 1, False),
        ((1,), (0, 1), 1, False),
    ],
)
def test_a_broker_that_shuts_down_joins_no_isr_and_may_stay_in_one(
    stopping: tuple[int, ...], isr: tuple[int, ...], broker_epoch: int, *, may: bool
) -> None:
    assert MACHINE.is_eligible_for_isr(controller(*stopping, isr=isr), 1, broker_epoch) is may


@pytest.mark.parametrize(
    ("stopping", "fenced", "is_active"), [((), (), True), ((1,), (), False), ((), (1,), False), ((0,), (), True)]
)
def test_who_shuts_down_is_given_no_leadership(
    stopping: tuple[int, ...], fenced: tuple[int, ...], *, is_active: bool
) -> None:
    assert MACHINE.is_active(controller(*stopping, fenced=fenced), 1) is is_active


@pytest.mark.parametrize(
    ("leader", "stopping", "fenced", "waits"),
    [
        (0, (0,), (), True),
        (0, (0, 1), (), True),
        (0, (0,), (2,), True),
        (0, (0, 1), (2,), False),
        (0, (0,), (1, 2), False),
        (1, (0,), (), False),
    ],
)
def test_a_leader_waits_to_stop_while_another_replica_that_stays_could_join(
    leader: int, stopping: tuple[int, ...], fenced: tuple[int, ...], *, waits: bool
) -> None:
    now = controller(*stopping, isr=(0,), fenced=fenced, leader=leader)
    assert ControlledShutdown.of(MACHINE).must_wait(MACHINE, now, 0) is waits
    reason = GrantShutdown(0).guard(MACHINE, attrs.evolve(initial(), controller=now))
    assert (isinstance(reason, Refusal) and reason.error is Error.OK) is waits
    assert (reason == "") is not waits


@pytest.mark.parametrize(("broker_epoch", "may"), [(0, True), (1, False), (NONE, False)])
def test_the_process_is_let_go_that_has_asked(broker_epoch: int, *, may: bool) -> None:
    now = controller(1, isr=(0, 2))
    state = attrs.evolve(initial(), controller=now)
    state = state.with_replica(1, attrs.evolve(state.replicas[1], broker_epoch=broker_epoch))
    assert (GrantShutdown(1).guard(MACHINE, state) == "") is may


def test_requests_wait_on_that_were_responded_to_or_are_for_others() -> None:
    responded, lost, other = (FetchRequest(1, leader, 0, offset, 0, 0) for leader, offset in ((0, 0), (0, 1), (2, 0)))
    assert still_waiting((responded, lost, other), (0, (responded,))) == (responded, other)


class Uncleanly(ReplicationExtension):
    """Takes every change for an unclean election."""

    def settled(
        self,
        machine: ReplicationRules,
        inner: Callable[[Controller, Controller], tuple[Controller, bool]],
        old: Controller,
        new: Controller,
    ) -> tuple[Controller, bool]:
        return new, True


@pytest.mark.parametrize(
    ("inner", "isr", "is_unclean"),
    [((), (0, 1), False), ((), (), True), ((Uncleanly(),), (0, 1), True), ((Uncleanly(),), (), True)],
)
def test_a_hand_over_is_unclean_if_it_or_what_led_to_it_was(
    inner: tuple[ReplicationExtension, ...], isr: tuple[int, ...], *, is_unclean: bool
) -> None:
    machine = Replication(
        brokers=3, unclean_leader_election=True, extensions=(*inner, ControlledShutdown()), bounds=Bounds()
    )
    now = controller(isr=isr)
    assert machine.settled(now, now)[1] is is_unclean


class TrustsEveryNote(ControlledShutdown):
    """Asks of no note whether it is of the last process."""

    def is_last_process(self, controller: Controller, replica: Replica, broker: int) -> bool:
        return True


@pytest.mark.parametrize(
    ("extension", "noted", "stays_eligible"),
    [
        (ControlledShutdown(), 1, True),
        (ControlledShutdown(), 0, False),
        (ControlledShutdown(), NONE, False),
        (TrustsEveryNote(), 0, True),
        (TrustsEveryNote(), NONE, False),
    ],
)
def test_who_comes_back_from_a_clean_stop_of_the_last_process_has_lost_nothing(
    extension: ControlledShutdown, noted: int, *, stays_eligible: bool
) -> None:
    machine = Replication(brokers=3, min_insync_replicas=3, extensions=(extension,), bounds=Bounds())
    now = with_session(controller(isr=(0, 1)), 1, Session(broker_epoch=2, fenced=True))
    after = machine.with_registration(now, with_part(Replica(), CleanStop(noted)), 1)
    assert (after.isr, after.elr) == ((0,), (1,) if stays_eligible else ())


@pytest.mark.parametrize(
    ("leader", "stopping", "isr", "holds"),
    [
        (0, (0,), (0,), True),
        (0, (0,), (0, 1), False),
        (0, (0, 1), (0, 1), True),
        (NONE, (2,), (0,), True),
        (1, (0,), (0, 1), True),
    ],
)
def test_who_shuts_down_leads_while_all_in_sync_do(
    leader: int, stopping: tuple[int, ...], isr: tuple[int, ...], *, holds: bool
) -> None:
    state = attrs.evolve(initial(), controller=controller(*stopping, isr=isr, leader=leader))
    assert MACHINE.invariants["ShuttingDownLeadsLast"](state) is holds


@pytest.mark.parametrize(
    ("before", "after", "holds"), [((0, 1), (1,), True), ((0,), (), False), ((), (), True), ((0,), (0,), True)]
)
def test_who_asks_to_stop_leaves_somebody_in_sync(
    before: tuple[int, ...], after: tuple[int, ...], *, holds: bool
) -> None:
    never = MACHINE.step_invariants["ShutdownNeverEmptiesTheIsr"]
    states = [attrs.evolve(initial(), controller=controller(isr=isr)) for isr in (before, after)]
    assert never(states[0], BeginShutdown(0), states[1]) is holds
    assert never(states[0], Append(0), states[1])


# --- brokers that were removed ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "is_told"),
    [({}, True), ({"running": False}, False), ({"paused": True}, False), ({"broker_epoch": NONE}, False)],
)
def test_a_process_is_told_that_its_broker_was_removed(changes: dict[str, Any], *, is_told: bool) -> None:
    machine = Replication(brokers=3, extensions=(Unregistering(),), bounds=Bounds(Unregister=1))
    gone = with_part(Session(broker_epoch=1, fenced=True), Unregistered(is_gone=True))
    replica = attrs.evolve(initial(machine).replicas[1], **changes)
    reason = machine.not_unfenced(with_session(initial(machine).controller, 1, gone), replica, 1)
    assert reason
    assert isinstance(reason, Refusal) is is_told


# --- settings --------------------------------------------------------------------------------------------------------

SETTINGS = Replication(brokers=3, extensions=(Settings(),), bounds=Bounds(ChangeSettings=1))


@pytest.mark.parametrize(
    ("leader", "isr", "elects", "led_by"),
    [(NONE, (), True, 0), (NONE, (), False, NONE), (1, (1,), True, 1), (0, (0, 1), True, 0)],
)
def test_a_topic_that_comes_to_accept_loss_has_a_leader_at_once(
    leader: int, isr: tuple[int, ...], led_by: int, *, elects: bool
) -> None:
    state = initial(SETTINGS)
    nobody = attrs.evolve(state.controller, leader=leader, isr=isr, elr=() if isr else (2,))
    nobody = with_session(nobody, 2, Session(fenced=True))
    after = ChangeSettings(1, elects).effect(SETTINGS, attrs.evolve(state, controller=nobody))
    assert after.controller.leader == led_by
    assert (after.history.superseded_epoch == NONE) is (led_by == leader)


@pytest.mark.parametrize(
    ("known", "replicas", "holders", "holds"),
    [((3, 3), 3, 2, False), ((3, 2), 3, 2, True), ((3, 3), 2, 2, True), ((2, 2), 3, 1, False), ((1, 2), 3, 1, True)],
)
def test_a_record_is_acknowledged_when_as_many_have_it_as_the_leader_with_the_least_knows_of(
    known: tuple[int, int], replicas: int, holders: int, *, holds: bool
) -> None:
    machine = Replication(brokers=3, extensions=(Reassignment((0, 1, 2)), Settings()), bounds=Bounds())
    state = initial(machine)
    log = (Record(0, 0),)
    for broker in range(3):
        replica = attrs.evolve(state.replicas[broker], log=log if broker < holders else ())
        if broker < 2:
            replica = with_part(attrs.evolve(replica, leader=broker), KnownSettings(known[broker]))
            replica = with_part(replica, ReplicaList(tuple(range(replicas))))
        state = state.with_replica(broker, attrs.evolve(replica, remote=(RemoteReplica(1, 0),) * 3))
    told = attrs.evolve(state, history=attrs.evolve(state.history, acknowledged=(0,)))
    enough = machine.step_invariants["AcknowledgedByEnough"]
    assert enough(state, Append(0), told) is holds


def test_the_topics_settings_begin_with_the_constants() -> None:
    machine = attrs.evolve(SETTINGS, min_insync_replicas=2, unclean_leader_election=True)
    assert TopicSettings.of(initial(machine).controller) == TopicSettings(2, elects_uncleanly=True)


# --- what damage leaves ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("start", "damaged", "withdrawn", "is_nothing"),
    [
        (0, NONE, NONE, False),
        (2, NONE, NONE, True),
        (0, 0, NONE, True),
        (0, 1, NONE, False),
        (0, NONE, 0, True),
        (1, NONE, 0, False),
    ],
)
def test_nothing_can_be_read_where_damage_begins_with_the_log(
    start: int, damaged: int, withdrawn: int, *, is_nothing: bool
) -> None:
    replica = Replica(log=(Record(0, 0), Record(0, 1)))
    for part in (LogStart(start, start), Damaged(damaged), Withdrawn(withdrawn, 0)):
        replica = with_part(replica, part)
    assert has_nothing_to_read(replica) is is_nothing


def test_a_repair_while_a_broker_runs_is_no_fall_of_a_leaders_high_watermark() -> None:
    machine = Replication(
        brokers=3, extensions=(ControlledShutdown(), Damage(), LostLogs(), RunningDamage()), bounds=Bounds()
    )
    after = initial(machine)
    before = after.with_replica(0, attrs.evolve(after.replicas[0], log=(Record(0, 0),), high_watermark=1))
    holds = machine.step_invariants["HighWatermarkMonotone"]
    assert holds(before, RepairWhileRunning(0), after)
    assert not holds(before, Append(0), after)
