"""Who may take the place of a registered process: each proof alone is refuted, and the controller has the same rule.

Every state is visited; at each the rule of the specification and that of the controller decide alike.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs
import pytest

from tidegauge.impl.controller import membership as impl
from tidegauge.impl.controller.config import ControllerConfig
from tidegauge.impl.controller.controller import Controller
from tidegauge.impl.metadata.image import BrokerRegistration, ClusterImage
from tidegauge.impl.metadata.records import RegisterBrokerRecord
from tidegauge.impl.partition.messages import UNKNOWN_BROKER_EPOCH
from tidegauge.model_tests.spec.counts import counted
from tidegauge.spec.kernel.explorer import Stop, explore
from tidegauge.spec.kernel.machine import Action, NotEnabled
from tidegauge.spec.membership.succession import (
    OWN,
    PROCESSES,
    Contact,
    Contest,
    Die,
    Expire,
    Heartbeat,
    LoseConnection,
    Process,
    Register,
    Registered,
    RestartController,
    Start,
    Succession,
)

MACHINE = Succession()


def test_the_machine_keeps_its_invariants_and_reaches_its_goal() -> None:
    found = explore(MACHINE, stop=Stop.NEVER, converges=True)
    assert found.holds, found.convergence
    assert found.complete
    assert counted(found) == (1_206, 5_172)
    assert not found.unreached
    assert not found.never_enabled


def test_with_two_faults_at_a_time_two_proofs_may_be_wrong() -> None:
    """What the page says that the rule does not cover."""
    assert not explore(Succession(faults=2), stop=Stop.EACH).holds


@attrs.frozen
class AConnectionThatHasClosedIsProof(Succession):
    """As it was here once."""

    def has_died(self, registered: Registered, process: Process) -> bool:
        return registered.contact is Contact.CLOSED


@attrs.frozen
class ADirectoryIsProof(Succession):
    """The directory's id alone."""

    def has_died(self, registered: Registered, process: Process) -> bool:
        is_open = registered.contact is Contact.OPEN
        return not is_open and process.directory_id == registered.process.directory_id


@attrs.frozen
class AnAddressIsProof(Succession):
    """The address's name alone."""

    def has_died(self, registered: Registered, process: Process) -> bool:
        is_open = registered.contact is Contact.OPEN
        return not is_open and process.address_name == registered.process.address_name


@attrs.frozen
class SilenceIsProof(Succession):
    """A new controller takes a process that has sent nothing yet for dead."""

    def has_died(self, registered: Registered, process: Process) -> bool:
        return registered.contact is Contact.NONE or super().has_died(registered, process)


@pytest.mark.parametrize(
    "kind",
    [AConnectionThatHasClosedIsProof, ADirectoryIsProof, AnAddressIsProof, SilenceIsProof],
    ids=lambda each: each.__name__,
)
def test_one_proof_is_not_enough(kind: type[Succession]) -> None:
    violations = explore(kind(), stop=Stop.EACH).violations
    assert {violation.invariant for violation in violations} == {"OfTwoLiveProcessesOneServes"}


@attrs.frozen
class SessionsNeverExpire(Succession):
    """Who has died is waited for."""

    def guard(self, state: Contest, action: Action) -> str:
        return "no session expires" if isinstance(action, Expire) else super().guard(state, action)


@attrs.frozen
class OnlyTheFirstRegisters(Succession):
    """Nobody takes the place of another one."""

    def guard(self, state: Contest, action: Action) -> str:
        taken = isinstance(action, Register) and state.registered is not None
        return "DUPLICATE_BROKER_REGISTRATION" if taken else super().guard(state, action)


@pytest.mark.parametrize("kind", [SessionsNeverExpire, OnlyTheFirstRegisters], ids=lambda each: each.__name__)
def test_a_broker_id_that_stays_without_a_broker_is_found(kind: type[Succession]) -> None:
    found = explore(kind(), converges=True)
    assert not found.violations
    assert found.convergence is not None
    assert [lasso.goal for lasso in found.convergence.lassos] == list(MACHINE.converges)


@attrs.frozen
class WaitsForTheSession(Succession):
    """Kafka's rule: safe, and nobody is let in early."""

    def has_died(self, registered: Registered, process: Process) -> bool:
        return False


def test_kafka_waits_for_the_session() -> None:
    found = explore(WaitsForTheSession(), stop=Stop.NEVER)
    assert found.holds
    assert any("before the session" in goal for goal in found.unreached)


def test_a_broker_that_died_with_its_controller_is_let_in_where_it_was_and_nowhere_else() -> None:
    home = PROCESSES[0]
    moved = Process(OWN, OWN, 1, 1)
    (state,) = MACHINE.initial()
    for action in (Start(home), Register(home), Heartbeat(), Die(home), RestartController()):
        state = MACHINE.step(state, action)
    assert MACHINE.step(MACHINE.step(state, Start(home)), Register(home)).registered == Registered(home, is_early=True)
    with pytest.raises(NotEnabled, match="DUPLICATE_BROKER_REGISTRATION"):
        MACHINE.step(MACHINE.step(state, Start(moved)), Register(moved))
    with pytest.raises(NotEnabled, match="no connection is lost"):
        MACHINE.step(state, LoseConnection())


# --- the implementation ----------------------------------------------------------------------------------------------


def reachable() -> Iterator[Contest]:
    """Every state of the machine, once; with two faults a copy may run under the same name beside the first."""
    machine = Succession(faults=2)
    due = list(machine.initial())
    found = set(due)
    while due:
        state = due.pop()
        yield state
        for _, after in machine.successors(state):
            if after not in found:
                found.add(after)
                due.append(after)


def registration(process: Process, incarnation: str) -> RegisterBrokerRecord:
    """What a process registers with; one of two directories and listeners is always its own."""
    return RegisterBrokerRecord(
        0,
        1,
        "inner",
        ord(incarnation),
        None,
        listeners=(("INNER", "inner", ord(incarnation), 0), ("OUTER", "host", process.address_name, 0)),
        directories=(f"of {incarnation}", str(process.directory_id)),
        incarnation_id=incarnation,
    )


def is_refused(
    image: ClusterImage, process: RegisterBrokerRecord, contact: impl.Contact, *, earlier_is_gone: bool = False
) -> bool:
    """Whether a controller of this image refuses the process; it registers it else."""
    proposal = Controller(9, ControllerConfig(), image).members.register(
        process.broker_id,
        host=process.host,
        port=process.port,
        listeners=process.listeners,
        directories=process.directories,
        incarnation_id=process.incarnation_id,
        contact=contact,
        earlier_is_gone=earlier_is_gone,
    )
    assert (proposal.response == UNKNOWN_BROKER_EPOCH) == (not proposal.records)
    return not proposal.records


def nameless(image: ClusterImage) -> ClusterImage:
    """The same, where the registered process has not said which one it is."""
    found = ClusterImage()
    found.brokers[0] = image.brokers[0]._replace(incarnation_id="")
    return found


def test_the_controller_refuses_a_registration_as_in_the_specification() -> None:
    decided = set()
    for state in reachable():
        if (known := state.registered) is None:
            continue
        first = registration(known.process, "a")
        image = ClusterImage()
        image.brokers[0] = BrokerRegistration(
            0,
            0,
            first.host,
            first.port,
            None,
            fenced=not known.has_session,
            listeners=first.listeners,
            directories=first.directories,
            incarnation_id="a",
        )
        for process in state.running:
            if known.lives and process == known.process:
                continue
            refused = MACHINE.guard(state, Register(process)) == "DUPLICATE_BROKER_REGISTRATION"
            contact = impl.Contact(known.contact.value)
            second = registration(process, "b")
            assert is_refused(image, second, contact) == refused, (state, process)
            assert not is_refused(image, second, contact, earlier_is_gone=True)
            assert not is_refused(image, second._replace(incarnation_id="a"), contact), "it is the one that is known"
            assert not is_refused(image, second._replace(incarnation_id=""), contact), "it does not say which it is"
            assert not is_refused(nameless(image), second, contact), "nobody has said which is known"
            assert not is_refused(image, second._replace(broker_id=1), contact), "there is no other one"
            decided.add((known.contact, known.has_session, refused))
    assert len(decided) == 8, "each contact with either outcome, but an open one; and no session"
