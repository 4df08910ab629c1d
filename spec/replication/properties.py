"""What must hold of a replicated partition, under the names of the literature, and what a search must have reached.

WeakIsr and StrongIsr are hachikuji's (KafkaReplication.tla); LeaderCandidateCompleteness, LeaderCompleteness,
ReplicationQuorumSuperset, ConsistentRead and NoCommittedRecordLost follow Vanlightly's Kafka specifications;
LogMatching is Raft's (Ongaro & Ousterhout 2014, §5.3) for leader epochs.

Exemptions, each named where it is made. A replica that crashed may lack its tail until it has registered again: until
then it can neither lead nor vote (`is_member`). A leader that an unclean election has overtaken promises nothing
(`leaders`), and until the leader of that election has taken over, nobody knows what is lost (`unsettled`). A leader
that the controller has replaced, and that has yet to learn it, goes by an ISR that is no longer the controller's: of
such a one WeakIsr says nothing, StrongIsr and ConsistentRead still do.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from tidegauge.spec.kernel.machine import Action, Invariant, StepInvariant
from tidegauge.spec.replication.actions import ReceiveFetchResponse
from tidegauge.spec.replication.control import UncleanElection
from tidegauge.spec.replication.faults import ExpireSession
from tidegauge.spec.replication.rules import ReplicationRules
from tidegauge.spec.replication.state import NONE, Acks, Log, Replica, State


def leaders(state: State) -> Sequence[tuple[int, Replica]]:
    """The brokers that think they lead, without those that an unclean election has overtaken.

    Invariants are asked of every state: a loop or a list takes a third of the time that `all` of a generator takes.
    """
    return [
        (broker, replica)
        for broker, replica in enumerate(state.replicas)
        if replica.leader == broker and replica.running and replica.leader_epoch >= state.history.superseded_epoch
    ]


def is_true_leader(state: State, broker: int, replica: Replica) -> bool:
    """It leads, in the epoch that the controller has written."""
    return replica.leader_epoch == state.controller.leader_epoch and state.controller.leader == broker


def is_member(state: State, broker: int) -> bool:
    """Running, and under the incarnation that the controller knows: what it has on disk is what it will lead with."""
    replica = state.replicas[broker]
    return replica.running and replica.broker_epoch == state.controller.sessions[broker].broker_epoch


def is_prefix(shorter: Log, longer: Log) -> bool:
    return longer[: len(shorter)] == shorter


def weak_isr(state: State) -> bool:
    """Each member of the ISR, as leader and controller both know it, has all below the leader's high watermark.

    The leader is the one of the controller's epoch; a member has registered since it last crashed.
    """
    for broker, replica in leaders(state):
        if is_true_leader(state, broker, replica):
            shown = replica.log[: replica.high_watermark]
            for member in replica.isr:
                known_to_both = is_member(state, member) and member in state.controller.isr
                if known_to_both and not is_prefix(shown, state.replicas[member].log):
                    return False
    return True


def strong_isr(state: State) -> bool:
    """Each member of the controller's ISR has all that lies below any leader's high watermark, of older epochs too."""
    if state.history.unsettled:
        return True
    for _, replica in leaders(state):
        shown = replica.log[: replica.high_watermark]
        for member in state.controller.isr:
            if is_member(state, member) and not is_prefix(shown, state.replicas[member].log):
                return False
    return True


def leader_candidate_completeness(state: State) -> bool:
    """Every replica that may be elected cleanly has every committed record."""
    committed = state.history.committed
    if state.history.unsettled:
        return True
    for candidate in (*state.controller.isr, *state.controller.elr):
        if is_member(state, candidate) and not is_prefix(committed, state.replicas[candidate].log):
            return False
    return True


def leader_completeness(state: State) -> bool:
    """The leader that the controller has written, once it knows, has every committed record."""
    for broker, replica in leaders(state):
        if is_true_leader(state, broker, replica) and not is_prefix(state.history.committed, replica.log):
            return False
    return True


def replication_quorum_superset(state: State) -> bool:
    """A leader waits for at least those that the controller could elect from the ISR."""
    isr = state.controller.isr
    for broker, replica in leaders(state):
        if is_true_leader(state, broker, replica) and replica.isr != isr and not set(isr) <= set(replica.maximal_isr):
            return False
    return True


def log_matching(state: State) -> bool:
    """Two logs with the same epoch at an offset are the same up to there."""
    logs = [replica.log for replica in state.replicas]
    for i, one in enumerate(logs):
        for other in logs[i + 1 :]:
            for offset in range(min(len(one), len(other)) - 1, -1, -1):
                if one[offset].epoch == other[offset].epoch:
                    if one[: offset + 1] != other[: offset + 1]:
                        return False
                    break
    return True


def consistent_read(state: State) -> bool:
    """What a consumer once saw at an offset is what any leader shows there."""
    committed = state.history.committed
    for _, replica in leaders(state):
        shown = replica.log[: replica.high_watermark]
        if not (is_prefix(shown, committed) or is_prefix(committed, shown)):
            return False
    return True


def no_committed_record_lost(state: State) -> bool:
    """Each replica that could lead now without loss has, in its log, each record that a producer was promised.

    A record that was declared lost is not missed.
    """
    if state.history.unsettled:
        return True
    promised = set(state.history.acknowledged).difference(state.history.lost)
    candidates = (*state.controller.isr, *state.controller.elr)
    return not promised or all(
        promised <= {record.value for record in state.replicas[b].log} for b in candidates if is_member(state, b)
    )


def high_watermark_within_log(state: State) -> bool:
    """No high watermark is beyond the end of its log."""
    return not [one for one in state.replicas if not 0 <= one.high_watermark <= len(one.log)]


def flushed_within_log(state: State) -> bool:
    """No more is flushed than is in the log."""
    return not [one for one in state.replicas if not 0 <= one.flushed <= len(one.log)]


def leader_in_isr(state: State) -> bool:
    """Who leads is in sync."""
    return state.controller.leader == NONE or state.controller.leader in state.controller.isr


def isr_is_unfenced(state: State) -> bool:
    """A fenced broker is not in sync (KIP-841)."""
    return not [broker for broker in state.controller.isr if state.controller.sessions[broker].fenced]


def elr_below_min_insync(machine: ReplicationRules) -> Invariant[State]:
    """There are eligible leaders outside the ISR only while it is too small to commit anything (KIP-966)."""

    def holds(state: State) -> bool:
        controller = state.controller
        if not controller.elr:
            return True
        too_small = len(controller.isr) < machine.required_insync(controller)
        return too_small and not set(controller.isr).intersection(controller.elr)

    return holds


def one_leader_per_epoch(state: State) -> bool:
    """No two brokers take themselves for the leader in one leader epoch."""
    epochs = [replica.leader_epoch for b, replica in enumerate(state.replicas) if replica.leader == b]
    return len(epochs) == len(set(epochs))


def invariants(machine: ReplicationRules) -> Mapping[str, Invariant[State]]:
    """What must hold in each state of the machine."""
    return {
        "HighWatermarkWithinLog": high_watermark_within_log,
        "FlushedWithinLog": flushed_within_log,
        "LeaderInIsr": leader_in_isr,
        "IsrIsUnfenced": isr_is_unfenced,
        "ElrBelowMinInsync": elr_below_min_insync(machine),
        "OneLeaderPerEpoch": one_leader_per_epoch,
        "ReplicationQuorumSuperset": replication_quorum_superset,
        "LogMatching": log_matching,
        "WeakIsr": weak_isr,
        "StrongIsr": strong_isr,
        "LeaderCandidateCompleteness": leader_candidate_completeness,
        "LeaderCompleteness": leader_completeness,
        "ConsistentRead": consistent_read,
        "NoCommittedRecordLost": no_committed_record_lost,
    }


Replicas = tuple[Replica, ...]
ChangedReplicas = Sequence[tuple[int, Replica, Replica]]

_latest: tuple[Replicas, Replicas, ChangedReplicas] = ((), (), ())
"""What `changed_replicas` has last found, and between what: several invariants ask it of each step."""


def changed_replicas(before: State, after: State) -> ChangedReplicas:
    """The replicas that a step has changed, before and after it: mostly none or one."""
    global _latest
    old, new = before.replicas, after.replicas
    if new is old:
        return ()
    asked, about, found = _latest
    if about is not new or asked is not old:
        found = [(broker, old[broker], replica) for broker, replica in enumerate(new) if replica is not old[broker]]
        _latest = old, new, found
    return found


def high_watermark_monotone(before: State, action: Action, after: State) -> bool:
    """A leader's high watermark does not fall while its epoch lasts."""
    for broker, old, new in changed_replicas(before, after):
        stays = old.leader == new.leader == broker and old.leader_epoch == new.leader_epoch and new.running
        if stays and new.high_watermark < old.high_watermark:
            return False
    return True


def epochs_monotone(before: State, action: Action, after: State) -> bool:
    """None of the controller's epochs gets smaller; no replica goes back to an older leader epoch while it runs."""
    old, new = before.controller, after.controller
    if new is not old and (
        new.epoch < old.epoch or new.leader_epoch < old.leader_epoch or new.partition_epoch < old.partition_epoch
    ):
        return False
    for _, was, replica in changed_replicas(before, after):
        if replica.leader_epoch < was.leader_epoch and replica.running:
            return False
    return True


def common_prefix_kept(before: State, action: Action, after: State) -> bool:
    """A follower cuts nothing that its leader has too: it cuts where the logs diverge, or above (KIP-101, KIP-279).

    Of a leader that has moved on to another epoch nothing can be said.
    """
    if type(action) is not ReceiveFetchResponse:  # `isinstance` takes five times as long for an ABC
        return True
    request = action.response.request
    old, new = before.replicas[request.follower], after.replicas[request.follower]
    leader, cut = after.replicas[request.leader], new.log_end_offset
    if cut >= old.log_end_offset or (leader.leader, leader.leader_epoch) != (request.leader, new.leader_epoch):
        return True
    return cut >= leader.log_end_offset or leader.log[cut] != old.log[cut]


def only_divergence_cuts(machine: ReplicationRules) -> StepInvariant[State]:
    """A live process's log gets shorter by a leader's response or new metadata; an extension names what else cuts it.

    What becomes of a log while its broker is down is the disk's doing.
    """

    def holds(before: State, action: Action, after: State) -> bool:
        for _, old, new in changed_replicas(before, after):
            if len(new.log) < len(old.log) and new.running:
                return isinstance(action, machine.cutting_types)
        return True

    return holds


def eligible_leaders_kept(machine: ReplicationRules) -> StepInvariant[State]:
    """While too few are in sync, who leaves the ISR stays eligible to lead, until it starts anew (KIP-966).

    Three things make an end of that: enough are in sync again, be it for a moment, since a broker that was to stop may
    leave as another joins; an unclean election; and a list of replicas on which it is not.
    """

    def holds(before: State, action: Action, after: State) -> bool:
        old, new = before.controller, after.controller
        if new is old:
            return True
        joined = set(new.isr).difference(old.isr)
        in_sync = joined.union(old.isr) if joined else new.isr
        if len(in_sync) >= machine.required_insync(new):
            return True
        if before.history.superseded_epoch != after.history.superseded_epoch:
            return True
        lost = {*old.isr, *old.elr}.difference(new.isr, new.elr).intersection(machine.replica_order(new))
        if not isinstance(action, ExpireSession):
            lost.discard(getattr(action, "broker", NONE))
        return not lost

    return holds


def last_known_leader(before: State, action: Action, after: State) -> Collection[int]:
    """Who led last, as the controller knew before it elected."""
    old = before.controller
    return (old.last_known_leader if old.leader == NONE else old.leader,)


def loss_is_accepted(
    accepts: Callable[[State], bool], may_lead: Callable[[State, Action, State], Collection[int]] = last_known_leader
) -> StepInvariant[State]:
    """An unclean election happens where the topic or an operator accepts it, else only of the last known leader.

    `accepts` tells whether the topic does. The last known leader is elected when there is nobody else to wait for: the
    ISR and the ELR are empty (KIP-966). `may_lead` has who else may be elected then.
    """

    def holds(before: State, action: Action, after: State) -> bool:
        if after.history is before.history or after.history.superseded_epoch == before.history.superseded_epoch:
            return True
        if isinstance(action, UncleanElection) or accepts(after):
            return True
        waited_for = {*before.controller.isr, *before.controller.elr} - {getattr(action, "broker", NONE)}
        return after.controller.leader in may_lead(before, action, after) and not waited_for

    return holds


def acknowledged_by_enough(machine: ReplicationRules, required: Callable[[State], int]) -> StepInvariant[State]:
    """When a producer that waits for all is told so, min.insync.replicas have the record.

    `required` is that number. A replica that has crashed since it fetched may have lost the record again.
    """

    def holds(before: State, action: Action, after: State) -> bool:
        if after.history is before.history:
            return True
        told = set(after.history.acknowledged).difference(before.history.acknowledged)
        return all(_holders(machine, after, value) >= required(after) for value in told)

    return holds


def _holders(machine: ReplicationRules, state: State, value: int) -> int:
    """How many replicas have the record, or had it before they crashed."""
    return sum(
        not is_member(state, broker)
        or any(record.value == value for record in replica.log)
        or any(machine.has_lost_since(leader, broker, replica) for b, leader in leaders(state) if b != broker)
        for broker, replica in enumerate(state.replicas)
    )


def step_invariants(machine: ReplicationRules) -> Mapping[str, StepInvariant[State]]:
    """What must hold of each step of the machine."""
    return {
        "HighWatermarkMonotone": high_watermark_monotone,
        "EpochsMonotone": epochs_monotone,
        "CommonPrefixKept": common_prefix_kept,
        "OnlyDivergenceCuts": only_divergence_cuts(machine),
        "EligibleLeadersKept": eligible_leaders_kept(machine),
        "LossIsAccepted": loss_is_accepted(lambda state: machine.unclean_leader_election),
        "AcknowledgedByEnough": acknowledged_by_enough(machine, lambda state: machine.min_insync_replicas),
    }


def goals(machine: ReplicationRules) -> Mapping[str, Callable[[State], bool]]:
    """What a search within these constants must have reached, else it has proved little."""
    bounds, has_records = machine.bounds, machine.max_records > 0
    wanted: dict[str, Callable[[State], bool]] = {}
    if has_records:
        wanted["a record is committed"] = lambda s: bool(s.history.committed)
    if bounds["ShrinkIsr"] or bounds["ExpireSession"]:
        wanted["the ISR has shrunk"] = lambda s: len(s.controller.isr) < machine.brokers
    if bounds["ExpireSession"]:
        if has_records:
            wanted["a later leader has committed"] = lambda s: any(r.epoch > 0 for r in s.history.committed)
        wanted["two brokers think they lead"] = lambda s: sum(r.leader == b for b, r in enumerate(s.replicas)) > 1
        wanted["a fetch is refused"] = lambda s: any(m.error for m in s.network.fetch_responses)
    if bounds["ExpireSession"] and machine.max_records > 1:
        wanted["two logs diverge"] = lambda s: any(
            not is_prefix(a.log, b.log) and not is_prefix(b.log, a.log) for a in s.replicas for b in s.replicas
        )
    if bounds["Crash"]:
        wanted["a new incarnation is in sync"] = lambda s: any(
            session.broker_epoch and b in s.controller.isr for b, session in enumerate(s.controller.sessions)
        )
    harm = bounds["ShrinkIsr"] + bounds["ExpireSession"] + bounds["Crash"]
    if has_records and harm > 1 and (machine.unclean_leader_election or bounds["UncleanElection"]):
        wanted["an acknowledged record is lost"] = lambda s: bool(s.history.lost)
    if has_records and Acks.ALL in machine.acks:
        wanted["a producer that waits for all is acknowledged"] = lambda s: bool(s.history.acknowledged)
    return wanted


def explain(invariant: str, state: State) -> Mapping[str, object]:
    """The values on which the replication invariants turn."""
    shown: dict[str, object] = {
        "controller": f"leader {state.controller.leader} in epoch {state.controller.leader_epoch}, "
        f"ISR {list(state.controller.isr)}, ELR {list(state.controller.elr)}",
        "committed": tuple(str(record) for record in state.history.committed),
        "acknowledged": state.history.acknowledged,
        "lost": state.history.lost,
    }
    for broker, replica in enumerate(state.replicas):
        shown[f"broker {broker}"] = (
            f"{'leads' if replica.leader == broker else f'follows {replica.leader}'} in epoch {replica.leader_epoch}, "
            f"log [{' '.join(map(str, replica.log))}], HW {replica.high_watermark}, ISR {list(replica.isr)}"
            + (f", proposed {list(replica.pending_isr)}" if replica.pending_isr else "")
            + ("" if replica.running else ", down")
        )
    return shown
