"""One function for each action of the specification, which performs the action on the cores.

Each is called only when the action is enabled in the specification, and decides nothing: the outcome is that of the
cores, and the comparison of states shows whether it is right.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final

from kio.schema.errors import ErrorCode

from tidegauge.impl.controller.membership import Contact, HeartbeatResponse
from tidegauge.impl.metadata.records import MetadataRecord
from tidegauge.impl.partition.replica import PartitionReplica
from tidegauge.impl.records.lazy import in_memory
from tidegauge.model_tests.harness.cores import abstraction
from tidegauge.model_tests.harness.cores.asked_replica import check_asked, check_refusal
from tidegauge.model_tests.harness.cores.effects import takes_fetch_response
from tidegauge.model_tests.harness.cores.refusals import REFUSALS
from tidegauge.model_tests.harness.cores.replication import PARTITION, TOPIC, Broker, Cores
from tidegauge.model_tests.harness.performing import Steps, on
from tidegauge.spec.kernel.machine import Action
from tidegauge.spec.replication import actions as protocol
from tidegauge.spec.replication import control, faults
from tidegauge.spec.replication import state as spec

# --- produce and fetch ---------------------------------------------------------------------------------------------


def append(cores: Cores, action: protocol.Append) -> None:
    value, cores.next_value = cores.next_value, cores.next_value + 1
    batch = cores.brokers[action.broker].log.produced([value])
    appended = cores.replica(action.broker).append(batch, int(action.acks), cores.now_ms)
    if not isinstance(appended, ErrorCode):
        cores.brokers[action.broker].appended = appended
        if action.acks is spec.Acks.ALL:
            cores.waiting[value] = (action.broker, appended)
    cores.carry_out_effects(action.broker, appended=True)


def send_fetch(cores: Cores, action: protocol.SendFetch) -> None:
    broker, replica = cores.brokers[action.broker], cores.replica(action.broker)
    fetch = replica.fetch_request(broker.broker_epoch)
    if fetch is not None:
        request = abstraction.fetch_request(fetch, replica.leader, cores.epochs, cores.additions)
        cores.fetches[request] = broker.outstanding[request] = fetch


def receive_fetch(cores: Cores, action: protocol.ReceiveFetch) -> None:
    fetch = cores.fetches[action.request] if action.duplicate else cores.fetches.pop(action.request)
    leader = action.request.leader
    log = cores.brokers[leader].log
    served = cores.replica(leader).receive_fetch(fetch, log.bytes_of(action.records), cores.now_ms)
    check_refusal(cores.replica(leader), served)
    if action.request in cores.brokers[action.request.follower].outstanding:
        records = log.decode(in_memory(served.records))
        response = abstraction.fetch_response(action.request, served, records, cores.additions, log.records)
        is_news = bool(records) or response.error is not spec.Error.OK or response.diverging_end_offset >= 0
        assert served.has_news == is_news, f"whether a response of broker {leader} is held: {served}"
        cores.fetch_responses[response] = served
    cores.carry_out_effects(leader)


def hold_fetch(cores: Cores, action: protocol.HoldFetch) -> None:
    leader = action.request.leader
    one_record = cores.brokers[leader].log.bytes_of(1)
    response = cores.replica(leader).receive_fetch(cores.fetches[action.request], one_record, cores.now_ms)
    assert not response.has_news, f"a fetch is held though there is something to return: {response}"
    cores.carry_out_effects(leader)


def receive_fetch_response(cores: Cores, action: protocol.ReceiveFetchResponse) -> None:
    fetch_response_accepted(cores, action)


def fetch_response_accepted(cores: Cores, action: protocol.ReceiveFetchResponse) -> bool:
    """Have the follower receive a response; returns whether it waited for it, and took it."""
    response = cores.fetch_responses.pop(action.response)
    follower = action.response.request.follower
    replica = cores.replica(follower)
    fetch = cores.brokers[follower].outstanding.pop(action.response.request, None)
    if fetch is None:
        return False
    takes = takes_fetch_response(replica, fetch, response)
    accepted = replica.receive_fetch_response(fetch, response, cores.now_ms)
    assert accepted == takes, f"broker {follower} says of a fetch response that it is {'' if accepted else 'not '}taken"
    cores.carry_out_effects(follower)
    return accepted


# --- ISR changes, metadata, elections ------------------------------------------------------------------------------


def shrink_isr(cores: Cores, action: control.ShrinkIsr) -> None:
    replica = cores.replica(action.broker)
    cores.now_ms += cores.config.replica_lag_time_max_ms + 1
    keep_up(replica, set(replica.remote_replicas) - set(action.lagging), cores.now_ms)
    assert replica.shrink_isr(cores.now_ms), f"broker {action.broker} says that nobody lags"
    assert not replica.shrink_isr(cores.now_ms), f"broker {action.broker} says that it proposes twice at a time"
    cores.carry_out_effects(action.broker)


def keep_up(replica: PartitionReplica, followers: set[int], now_ms: int) -> None:
    """The harness decides who has lagged for too long: these have not."""
    for follower in followers:
        replica.remote_replicas[follower].last_caught_up_ms = now_ms


def retry_alter_partition(cores: Cores, action: control.RetryAlterPartition) -> None:
    cores.send_alter_partition(action.broker)


def receive_alter_partition(cores: Cores, action: control.ReceiveAlterPartition) -> None:
    request = cores.alters.pop(action.request)
    response = cores.commit(cores.controller.isr_changes.alter(TOPIC, PARTITION, request))
    cores.alter_responses[abstraction.alter_partition_response(request, response)] = (request, response)


def receive_alter_partition_response(cores: Cores, action: control.ReceiveAlterPartitionResponse) -> None:
    request, response = cores.alter_responses.pop(action.response)
    cores.replica(action.response.leader).receive_alter_partition_response(request, response)
    cores.carry_out_effects(action.response.leader)


def pull_metadata(cores: Cores, action: control.PullMetadata) -> None:
    cores.pull_metadata(action.broker)


def apply_metadata(cores: Cores, action: control.ApplyMetadata) -> None:
    cores.apply_metadata(action.broker)


def preferred_election(cores: Cores, action: control.PreferredElection) -> None:
    cores.commit(cores.controller.elections.elect_preferred(TOPIC, PARTITION))


def unclean_election(cores: Cores, action: control.UncleanElection) -> None:
    cores.commit(cores.controller.elections.elect_uncleanly(TOPIC, PARTITION))


# --- membership ----------------------------------------------------------------------------------------------------


def expire_session(cores: Cores, action: faults.ExpireSession) -> None:
    """Or a process asks to be fenced, which comes to the same."""
    broker, known = cores.brokers[action.broker], cores.controller.image.brokers[action.broker]
    if cores.now_ms % 2 and broker.replica is not None and broker.broker_epoch == known.broker_epoch:
        told = cores.commit(
            cores.controller.members.heartbeat(
                action.broker, broker.broker_epoch, broker.image.offset, cores.now_ms, want_fence=True
            )
        )
        assert told.is_fenced, f"broker {action.broker} is not fenced: {told}"
        assert not told.should_shut_down, f"broker {action.broker} is told to stop"
    else:
        assert cores.commit(cores.controller.members.fence(action.broker)), f"broker {action.broker} is not fenced"
    assert not cores.commit(cores.controller.members.fence(action.broker)), f"broker {action.broker} is fenced twice"


def register(cores: Cores, action: faults.Register) -> None:
    register_process(cores, action.broker)


def register_process(cores: Cores, number: int, **more: Any) -> None:
    """A new process registers; the connections of the one before are closed."""
    broker = cores.brokers[number]
    broker.broker_epoch = cores.commit(
        cores.controller.members.register(
            number,
            host=f"broker-{number}",
            port=9092,
            incarnation_id=f"made at {cores.metadata_log.end_offset}",
            contact=Contact.CLOSED,
            **more,
        )
    )
    cores.epochs.register(number, broker.broker_epoch)
    broker.seen = None


def unfence(cores: Cores, action: faults.Unfence) -> None:
    broker = cores.brokers[action.broker]
    cores.commit(
        cores.controller.members.heartbeat(action.broker, broker.broker_epoch, broker.image.offset, cores.now_ms)
    )


def controller_failover(cores: Cores, action: faults.ControllerFailover) -> None:
    cores.controller = cores.activate_controller()
    cores.alters.clear()


# --- disk, pauses, the network -------------------------------------------------------------------------------------


def flush(cores: Cores, action: faults.Flush) -> None:
    cores.brokers[action.broker].log.flush()
    cores.brokers[action.broker].seen = None


def checkpoint_high_watermark(cores: Cores, action: faults.CheckpointHighWatermark) -> None:
    cores.brokers[action.broker].checkpoint = cores.replica(action.broker).high_watermark


def crash(cores: Cores, action: faults.Crash) -> None:
    dead, broker = action.broker, cores.brokers[action.broker]
    cores.brokers[dead] = Broker(broker.log.after_crash(action.kept), checkpoint=broker.checkpoint)
    for follower in range(len(cores.brokers)):
        cut_connection(cores, follower, dead)
        cut_connection(cores, dead, follower)
    disconnect_controller(cores, faults.DisconnectController(dead))
    for value, (leader, _) in list(cores.waiting.items()):
        if leader == dead:
            del cores.waiting[value]


def restart(cores: Cores, action: faults.Restart) -> None:
    cores.start_replica(action.broker)
    cores.brokers[action.broker].seen = None


def pause(cores: Cores, action: faults.Pause) -> None:
    cores.brokers[action.broker].paused = True
    cores.brokers[action.broker].seen = None


def resume(cores: Cores, action: faults.Resume) -> None:
    cores.brokers[action.broker].paused = False
    cores.brokers[action.broker].seen = None


def disconnect(cores: Cores, action: faults.Disconnect) -> None:
    cut_connection(cores, action.follower, action.leader)


def cut_connection(cores: Cores, follower: int, leader: int) -> None:
    """The connection on which `follower` fetches from `leader` is gone, and all that was on it."""
    broker = cores.brokers[follower]
    broker.outstanding = {r: fetch for r, fetch in broker.outstanding.items() if r.leader != leader}
    broker.seen = None
    for request in [r for r in cores.fetches if (r.follower, r.leader) == (follower, leader)]:
        del cores.fetches[request]
    for response in [r for r in cores.fetch_responses if (r.request.follower, r.request.leader) == (follower, leader)]:
        del cores.fetch_responses[response]


def disconnect_controller(cores: Cores, action: faults.DisconnectController) -> None:
    for request in [m for m in cores.alters if m.leader == action.broker]:
        del cores.alters[request]
    for response in [m for m in cores.alter_responses if m.leader == action.broker]:
        del cores.alter_responses[response]


STEPS: Final = Steps[Cores, [], None](
    on(protocol.Append, append),
    on(protocol.SendFetch, send_fetch),
    on(protocol.ReceiveFetch, receive_fetch),
    on(protocol.HoldFetch, hold_fetch),
    on(protocol.ReceiveFetchResponse, receive_fetch_response),
    on(control.ShrinkIsr, shrink_isr),
    on(control.RetryAlterPartition, retry_alter_partition),
    on(control.ReceiveAlterPartition, receive_alter_partition),
    on(control.ReceiveAlterPartitionResponse, receive_alter_partition_response),
    on(control.PullMetadata, pull_metadata),
    on(control.ApplyMetadata, apply_metadata),
    on(control.PreferredElection, preferred_election),
    on(control.UncleanElection, unclean_election),
    on(faults.ExpireSession, expire_session),
    on(faults.Register, register),
    on(faults.Unfence, unfence),
    on(faults.ControllerFailover, controller_failover),
    on(faults.Flush, flush),
    on(faults.CheckpointHighWatermark, checkpoint_high_watermark),
    on(faults.Crash, crash),
    on(faults.Restart, restart),
    on(faults.Pause, pause),
    on(faults.Resume, resume),
    on(faults.Disconnect, disconnect),
    on(faults.DisconnectController, disconnect_controller),
)


class ReplicationCores(Cores):
    """Cores that perform actions: what `model_tests.harness.lockstep.lockstep` calls a binding."""

    refusals: ClassVar[Steps[Any, [], ErrorCode | None]] = REFUSALS
    """How the cores are sent what is refused; an extension has functions of its own."""
    written: tuple[MetadataRecord, ...] = ()
    """What the controller has written at the last refused request."""

    def perform(self, action: Action, before: spec.State) -> None:
        """Do what the action says; it is enabled in the specification."""
        self.now_ms += 1
        self.step(action)
        number = self.now_ms % len(self.brokers)
        self.keep_session(number)
        if self.brokers[number].replica is not None:
            check_asked(self.replica(number), self.now_ms // len(self.brokers), self.now_ms)

    def keep_session(self, number: int) -> None:
        """A broker that is neither fenced nor about to stop sends a heartbeat: nothing but its deadline changes."""
        broker, controller = self.brokers[number], self.controller
        if not controller.image.is_active(number) or broker.replica is None:
            return
        if controller.image.brokers[number].broker_epoch != broker.broker_epoch:
            return
        end, members = self.metadata_log.end_offset, controller.members
        told = self.commit(members.heartbeat(number, broker.broker_epoch, broker.image.offset, self.now_ms))
        caught_up = broker.image.offset > broker.broker_epoch
        assert told == HeartbeatResponse(ErrorCode.none, caught_up, is_fenced=False), f"broker {number} is told {told}"
        assert self.metadata_log.end_offset == end, "a heartbeat of a live broker is written"
        deadline = self.now_ms + controller.config.broker_session_timeout_ms
        assert controller.sessions[number] == deadline, f"the session of broker {number}"

    def step(self, action: Action) -> None:
        """Perform the action by the function for its class; an extension has functions of its own."""
        STEPS.perform(self, action)

    def can_send(self, kind: type[Action]) -> bool:
        return kind in self.refusals

    def refuse(self, action: Action, before: spec.State) -> ErrorCode | None:
        """Send what is refused; returns the error, None for what these cores cannot be sent."""
        end = self.metadata_log.end_offset
        error = self.refusals.perform(self, action) if self.can_send(type(action)) else None
        self.written = tuple(self.metadata_log.read(end))
        return error

    def close(self) -> None:
        """There is nothing to give back."""
