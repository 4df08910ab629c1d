"""What must hold of a replicated partition, under the names of the literature, and what a search must have reached.

WeakIsr and StrongIsr are hachikuji's (KafkaReplication.tla); LeaderCandidateCompleteness, LeaderCompleteness,
ReplicationQuorumSuperset, ConsistentRead and NoCommittedRecordLost follow Vanlightly's Kafka specifications;
LogMatching is Raft's (Ongaro & Ousterhout 2014, §5.3) for leader epochs.

Two exemptions, and no more. A replica that crashed may lack its tail until it has registered again: until then it can
neither lead nor vote. And a leader that an unclean election has overtaken promises nothing: its loss is declared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from tidegauge.spec.kernel.machine import Action, Invariant, StepInvariant
from tidegauge.spec.replication.rules import ReplicationRules
from tidegauge.spec.replication.state import NONE, Acks, Log, Replica, State


def leaders(state: State) -> Iterator[tuple[int, Replica]]:
    """The brokers that think they lead, without those that an unclean election has overtaken."""
    for broker, replica in enumerate(state.replicas):
        if replica.leader == broker and replica.running and replica.leader_epoch >= state.history.superseded_epoch:
            yield broker, replica


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
    """Each member of a leader's own ISR has all that lies below that leader's high watermark."""
    return all(
        is_prefix(replica.log[: replica.high_watermark], state.replicas[member].log)
        for broker, replica in leaders(state)
        if is_true_leader(state, broker, replica)
        for member in replica.isr
        if is_member(state, member) and member in state.controller.isr
    )


def strong_isr(state: State) -> bool:
    """Each member of the controller's ISR has all that lies below any leader's high watermark."""
    return all(
        is_prefix(replica.log[: replica.high_watermark], state.replicas[member].log)
        for _, replica in leaders(state)
        for member in state.controller.isr
        if is_member(state, member) and not state.history.unsettled
    )


def leader_candidate_completeness(state: State) -> bool:
    """Every replica that may be elected cleanly has every committed record."""
    candidates = (*state.controller.isr, *state.controller.elr)
    return state.history.unsettled or all(
        is_prefix(state.history.committed, state.replicas[b].log) for b in candidates if is_member(state, b)
    )


def leader_completeness(state: State) -> bool:
    """The leader that the controller has written, once it knows, has every committed record."""
    return all(
        is_prefix(state.history.committed, replica.log)
        for broker, replica in leaders(state)
        if is_true_leader(state, broker, replica)
    )


def replication_quorum_superset(state: State) -> bool:
    """A leader waits for at least those that the controller could elect from the ISR."""
    return all(
        set(state.controller.isr) <= set(replica.maximal_isr)
        for broker, replica in leaders(state)
        if is_true_leader(state, broker, replica)
    )


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
    """What was acknowledged to a producer that waited for all is committed still, or was declared lost."""
    kept = {record.value for record in state.history.committed}
    return state.history.unsettled or kept.union(state.history.lost).issuperset(state.history.acknowledged)


def high_watermark_within_log(state: State) -> bool:
    return all(0 <= replica.high_watermark <= replica.log_end_offset for replica in state.replicas)


def leader_in_isr(state: State) -> bool:
    return state.controller.leader == NONE or state.controller.leader in state.controller.isr


def isr_is_unfenced(state: State) -> bool:
    """A fenced broker is not in sync (KIP-841)."""
    return not any(state.controller.sessions[broker].fenced for broker in state.controller.isr)


def one_leader_per_epoch(state: State) -> bool:
    epochs = [replica.leader_epoch for b, replica in enumerate(state.replicas) if replica.leader == b]
    return len(epochs) == len(set(epochs))


INVARIANTS: Mapping[str, Invariant[State]] = {
    "HighWatermarkWithinLog": high_watermark_within_log,
    "LeaderInIsr": leader_in_isr,
    "IsrIsUnfenced": isr_is_unfenced,
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


def high_watermark_monotone(before: State, action: Action, after: State) -> bool:
    """A leader's high watermark does not fall while its epoch lasts."""
    return all(
        new.high_watermark >= old.high_watermark
        for broker, (old, new) in enumerate(zip(before.replicas, after.replicas, strict=True))
        if old.leader == new.leader == broker and old.leader_epoch == new.leader_epoch and new.running
    )


def epochs_monotone(before: State, action: Action, after: State) -> bool:
    """The controller's epochs only grow; no replica goes back to an older leader epoch while it runs."""
    old, new = before.controller, after.controller
    grown = (old.epoch, old.leader_epoch, old.partition_epoch) <= (new.epoch, new.leader_epoch, new.partition_epoch)
    return grown and all(
        b.leader_epoch >= a.leader_epoch or not b.running for a, b in zip(before.replicas, after.replicas, strict=True)
    )


def committed_grows(before: State, action: Action, after: State) -> bool:
    """Committed records go only where an unclean election is settled."""
    return before.history.unsettled or is_prefix(before.history.committed, after.history.committed)


STEP_INVARIANTS: Mapping[str, StepInvariant[State]] = {
    "HighWatermarkMonotone": high_watermark_monotone,
    "EpochsMonotone": epochs_monotone,
    "CommittedGrows": committed_grows,
}


def goals(machine: ReplicationRules) -> Mapping[str, Callable[[State], bool]]:
    """What a search within these constants must have reached, else it has proved little."""
    bounds = machine.bounds
    wanted: dict[str, Callable[[State], bool]] = {
        "a record is committed": lambda s: bool(s.history.committed),
    }
    if bounds["ShrinkIsr"] or bounds["ExpireSession"]:
        wanted["the ISR has shrunk"] = lambda s: len(s.controller.isr) < machine.brokers
    if bounds["ExpireSession"]:
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
    if harm > 1 and (machine.unclean_leader_election or bounds["UncleanElection"]):
        wanted["an acknowledged record is lost"] = lambda s: bool(s.history.lost)
    if Acks.ALL in machine.acks:
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
