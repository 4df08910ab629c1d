"""A partition whose min.insync.replicas changes while it is written to (KIP-966).

Theory of operation
-------------------
min.insync.replicas is read in two places. A leader commits nothing while its ISR is smaller; and because of that the
controller keeps replicas that leave a small ISR *eligible* to lead (ELR), as if they still held every committed record.
Both places have to mean the same number. They do not when it changes: the controller knows at once, a leader when it
has learned of it.

* The number falls. From now on the leader may commit without replicas that are eligible: the controller looks at them
  anew in the same decision, before any leader can have learned of it.
* The number rises. A leader that has not heard of it commits by the old one. Were it to shrink its ISR meanwhile, the
  controller would hold for eligible whom the leader commits without. So the change raises the partition epoch, as any
  change of the partition does: a proposal of a leader that has not learned of it is refused.

The rest of replication is cut down to what bears on this: logs are lengths, a leader knows how long its followers'
are, and a new leader's followers are cut to its length at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import attrs

from tidegauge.spec.kernel.machine import Action, Invariant, Machine, NotEnabled, check_processes
from tidegauge.spec.replication.state import NONE, BrokerId


@attrs.frozen
class Proposal:
    """A leader's ISR on its way to the controller."""

    leader: BrokerId
    leader_epoch: int
    partition_epoch: int
    isr: tuple[BrokerId, ...]


@attrs.frozen
class Answer:
    """What was written of a proposal, on its way back."""

    leader: BrokerId
    leader_epoch: int
    partition_epoch: int
    isr: tuple[BrokerId, ...]


@attrs.frozen
class Word:
    """What a broker believes of the partition."""

    leader: int
    leader_epoch: int
    partition_epoch: int
    isr: tuple[int, ...]
    min_insync: int
    pending: tuple[int, ...] = ()
    """The ISR that it has proposed and not heard of."""


@attrs.frozen
class Partition:
    """What the controller has written."""

    leader: int
    leader_epoch: int
    partition_epoch: int
    isr: tuple[int, ...]
    elr: tuple[int, ...]
    min_insync: int
    fenced: tuple[int, ...] = ()


@attrs.frozen
class MinInsyncState:
    """The partition, what each broker believes of it and how long its log is, and what is under way."""

    partition: Partition
    words: tuple[Word, ...]
    ends: tuple[int, ...]
    committed: int = 0
    proposals: tuple[Proposal, ...] = ()
    answers: tuple[Answer, ...] = ()
    changes: int = 0
    lapses: int = 0
    shrinks: int = 0

    def with_word(self, broker: int, word: Word) -> MinInsyncState:
        return attrs.evolve(self, words=(*self.words[:broker], word, *self.words[broker + 1 :]))


@attrs.frozen
class MinInsyncAction(Action):
    """An action of this machine."""

    def guard(self, machine: MinInsync, state: MinInsyncState) -> str:
        """What forbids it now; empty when it may happen."""
        raise NotImplementedError(self.name)

    def effect(self, machine: MinInsync, state: MinInsyncState) -> MinInsyncState:
        """The state after it."""
        raise NotImplementedError(self.name)


def _leads(state: MinInsyncState, broker: int) -> str:
    return "" if state.words[broker].leader == broker else f"broker {broker} does not think it leads"


@attrs.frozen
class Append(MinInsyncAction):
    """A broker that thinks it leads takes a record."""

    broker: BrokerId

    def guard(self, machine: MinInsync, state: MinInsyncState) -> str:
        if max(state.ends) >= machine.max_records:
            return f"all {machine.max_records} records are used"
        return _leads(state, self.broker)

    def effect(self, machine: MinInsync, state: MinInsyncState) -> MinInsyncState:
        return _with_end(state, self.broker, state.ends[self.broker] + 1)


@attrs.frozen
class Replicate(MinInsyncAction):
    """A follower gets all that its leader has."""

    follower: BrokerId

    def guard(self, machine: MinInsync, state: MinInsyncState) -> str:
        word = state.words[self.follower]
        if word.leader in (NONE, self.follower):
            return f"broker {self.follower} follows nobody"
        if state.words[word.leader].leader_epoch != word.leader_epoch:
            return f"brokers {word.leader} and {self.follower} are in different epochs"
        return "" if state.ends[self.follower] < state.ends[word.leader] else f"broker {self.follower} has it all"

    def effect(self, machine: MinInsync, state: MinInsyncState) -> MinInsyncState:
        return _with_end(state, self.follower, state.ends[state.words[self.follower].leader])


@attrs.frozen
class Commit(MinInsyncAction):
    """A leader moves its high watermark to the least end of all who are, or may soon be, in sync."""

    broker: BrokerId

    def guard(self, machine: MinInsync, state: MinInsyncState) -> str:
        word = state.words[self.broker]
        if len(word.isr) < word.min_insync:
            return f"{len(word.isr)} are in sync, and broker {self.broker} believes that {word.min_insync} must be"
        if _reached(state, self.broker) <= state.committed:
            return f"broker {self.broker} has nothing to commit"
        return _leads(state, self.broker)

    def effect(self, machine: MinInsync, state: MinInsyncState) -> MinInsyncState:
        return attrs.evolve(state, committed=_reached(state, self.broker))


def _reached(state: MinInsyncState, broker: int) -> int:
    word = state.words[broker]
    return min(state.ends[member] for member in {broker, *word.isr, *word.pending})


@attrs.frozen
class ProposeIsr(MinInsyncAction):
    """A leader asks for a follower to leave the ISR, or for one that has all to join it."""

    broker: BrokerId
    follower: BrokerId

    def guard(self, machine: MinInsync, state: MinInsyncState) -> str:
        word = state.words[self.broker]
        if self.follower == self.broker or word.pending:
            return f"broker {self.broker} waits, or means itself"
        if self.follower in word.isr and state.shrinks >= machine.max_shrinks:
            return "no more ISR shrinks in this model"
        if self.follower not in word.isr and state.ends[self.follower] < state.ends[self.broker]:
            return f"broker {self.follower} has not caught up"
        return _leads(state, self.broker)

    def effect(self, machine: MinInsync, state: MinInsyncState) -> MinInsyncState:
        word = state.words[self.broker]
        leaves = self.follower in word.isr
        isr = tuple(sorted({*word.isr} ^ {self.follower}))
        proposal = Proposal(self.broker, word.leader_epoch, word.partition_epoch, isr)
        state = attrs.evolve(state, proposals=(*state.proposals, proposal), shrinks=state.shrinks + leaves)
        return state.with_word(self.broker, attrs.evolve(word, pending=isr))


@attrs.frozen
class ReceiveProposal(MinInsyncAction):
    """The controller writes a proposal, if nothing of the partition has changed since it was made."""

    proposal: Proposal

    def guard(self, machine: MinInsync, state: MinInsyncState) -> str:
        return "" if self.proposal in state.proposals else "no such proposal is on its way"

    def effect(self, machine: MinInsync, state: MinInsyncState) -> MinInsyncState:
        proposal, old = self.proposal, state.partition
        state = attrs.evolve(state, proposals=tuple(p for p in state.proposals if p != proposal))
        if not accepts(old, proposal):
            return state
        left = tuple(member for member in old.isr if member not in proposal.isr)
        elr = machine.eligible(old.min_insync, proposal.isr, tuple(sorted({*old.elr, *left})))
        new = attrs.evolve(old, isr=proposal.isr, elr=elr, partition_epoch=old.partition_epoch + 1)
        answer = Answer(proposal.leader, proposal.leader_epoch, new.partition_epoch, new.isr)
        return attrs.evolve(state, partition=new, answers=(*state.answers, answer))


def accepts(partition: Partition, proposal: Proposal) -> bool:
    """Whether a proposal is of the present epochs, and names nobody who is fenced."""
    current = (partition.leader, partition.leader_epoch, partition.partition_epoch)
    meant = (proposal.leader, proposal.leader_epoch, proposal.partition_epoch)
    return meant == current and not set(proposal.isr) & set(partition.fenced)


@attrs.frozen
class ReceiveAnswer(MinInsyncAction):
    """A leader learns that its proposal was written. It learns nothing of settings by that."""

    answer: Answer

    def guard(self, machine: MinInsync, state: MinInsyncState) -> str:
        return "" if self.answer in state.answers else "no such answer is on its way"

    def effect(self, machine: MinInsync, state: MinInsyncState) -> MinInsyncState:
        answer, word = self.answer, state.words[self.answer.leader]
        state = attrs.evolve(state, answers=tuple(a for a in state.answers if a != answer))
        if word.leader_epoch != answer.leader_epoch or word.partition_epoch >= answer.partition_epoch:
            return state
        word = attrs.evolve(word, isr=answer.isr, partition_epoch=answer.partition_epoch, pending=())
        return state.with_word(answer.leader, word)


@attrs.frozen
class Learn(MinInsyncAction):
    """A broker reads the metadata log to its end: the partition, and the setting, in the order of the log."""

    broker: BrokerId

    def guard(self, machine: MinInsync, state: MinInsyncState) -> str:
        if self.broker in state.partition.fenced:
            return f"broker {self.broker} hears nothing"
        word, partition = state.words[self.broker], state.partition
        known = (word.partition_epoch, word.min_insync) == (partition.partition_epoch, partition.min_insync)
        return f"broker {self.broker} knows it all" if known else ""

    def effect(self, machine: MinInsync, state: MinInsyncState) -> MinInsyncState:
        word, partition = state.words[self.broker], state.partition
        pending = word.pending if word.partition_epoch == partition.partition_epoch else ()
        return state.with_word(self.broker, attrs.evolve(machine.word(partition), pending=pending))


@attrs.frozen
class ChangeMinInsync(MinInsyncAction):
    """Somebody sets min.insync.replicas."""

    value: int

    def guard(self, machine: MinInsync, state: MinInsyncState) -> str:
        if state.changes >= machine.max_changes:
            return "no more changes in this model"
        return "" if self.value != state.partition.min_insync else f"it is {self.value}"

    def effect(self, machine: MinInsync, state: MinInsyncState) -> MinInsyncState:
        partition = machine.changed(state.partition, self.value)
        return attrs.evolve(state, partition=partition, changes=state.changes + 1)


@attrs.frozen
class Lapse(MinInsyncAction):
    """The controller has not heard of a broker for too long: it leaves the ISR, and somebody else may lead."""

    broker: BrokerId

    def guard(self, machine: MinInsync, state: MinInsyncState) -> str:
        if state.lapses >= machine.max_lapses:
            return "no more lapses in this model"
        return f"broker {self.broker} is fenced" if self.broker in state.partition.fenced else ""

    def effect(self, machine: MinInsync, state: MinInsyncState) -> MinInsyncState:
        old = state.partition
        isr = tuple(member for member in old.isr if member != self.broker)
        elr = tuple(member for member in old.elr if member != self.broker)
        if self.broker in old.isr:
            elr = tuple(sorted((*elr, self.broker)))
        elr = machine.eligible(old.min_insync, isr, elr)
        fenced = tuple(sorted((*old.fenced, self.broker)))
        state = attrs.evolve(state, lapses=state.lapses + 1)
        return machine.governed(state, attrs.evolve(old, isr=isr, elr=elr, fenced=fenced))


@attrs.frozen
class Unfence(MinInsyncAction):
    """A fenced broker is heard of again."""

    broker: BrokerId

    def guard(self, machine: MinInsync, state: MinInsyncState) -> str:
        return "" if self.broker in state.partition.fenced else f"broker {self.broker} is live"

    def effect(self, machine: MinInsync, state: MinInsyncState) -> MinInsyncState:
        fenced = tuple(member for member in state.partition.fenced if member != self.broker)
        return machine.governed(state, attrs.evolve(state.partition, fenced=fenced))


def _with_end(state: MinInsyncState, broker: int, end: int) -> MinInsyncState:
    return attrs.evolve(state, ends=(*state.ends[:broker], end, *state.ends[broker + 1 :]))


@attrs.frozen
class MinInsync(Machine[MinInsyncState]):
    """The machine; its fields are the constants of the model."""

    action_types = (
        Append,
        Replicate,
        Commit,
        ProposeIsr,
        ReceiveProposal,
        ReceiveAnswer,
        Learn,
        ChangeMinInsync,
        Lapse,
        Unfence,
    )

    brokers: int = 2
    max_records: int = 1
    max_changes: int = 2
    max_lapses: int = 1
    max_shrinks: int = 1

    def initial(self) -> Iterable[MinInsyncState]:
        check_processes("brokers", self.brokers)
        for value in self.values:
            everybody = tuple(range(self.brokers))
            partition = Partition(0, 0, 0, everybody, (), value)
            yield MinInsyncState(partition, (self.word(partition),) * self.brokers, (0,) * self.brokers)

    @property
    def values(self) -> range:
        """What the setting may be."""
        return range(1, self.brokers + 1)

    def actions(self, state: MinInsyncState) -> Iterable[MinInsyncAction]:
        each = range(self.brokers)
        candidates: list[MinInsyncAction] = [kind(broker) for kind in _OF_BROKERS for broker in each]
        candidates += [ProposeIsr(broker, follower) for broker in each for follower in each]
        candidates += [ReceiveProposal(proposal) for proposal in state.proposals]
        candidates += [ReceiveAnswer(answer) for answer in state.answers]
        candidates += [ChangeMinInsync(value) for value in self.values]
        return [action for action in candidates if not action.guard(self, state)]

    def step(self, state: MinInsyncState, action: Action) -> MinInsyncState:
        if not isinstance(action, MinInsyncAction):
            raise TypeError(f"{action!r} is not an action of this machine")
        if failed := action.guard(self, state):
            raise NotEnabled(action, failed)
        return action.effect(self, state)

    @property
    def invariants(self) -> Mapping[str, Invariant[MinInsyncState]]:
        return {"LeaderCandidateCompleteness": candidates_are_complete}

    @property
    def sometimes(self) -> Mapping[str, Invariant[MinInsyncState]]:
        return {
            "a replica is eligible": lambda state: bool(state.partition.elr),
            "a leader believes in less than there must be": lambda state: any(
                word.leader == broker and word.min_insync < state.partition.min_insync
                for broker, word in enumerate(state.words)
            ),
            "a proposal has been overtaken": lambda state: any(
                not accepts(state.partition, proposal) for proposal in state.proposals
            ),
            "something is committed": lambda state: state.committed > 0,
        }

    def explain(self, invariant: str, state: MinInsyncState) -> Mapping[str, Any]:
        return {"committed": state.committed, "log ends": list(state.ends), "partition": state.partition}

    # --- rules of the controller -------------------------------------------------------------------------------

    def word(self, partition: Partition) -> Word:
        """What the metadata log says to a broker."""
        return Word(
            partition.leader, partition.leader_epoch, partition.partition_epoch, partition.isr, partition.min_insync
        )

    def eligible(self, min_insync: int, isr: tuple[int, ...], elr: tuple[int, ...]) -> tuple[int, ...]:
        """Eligible leaders are kept as long as nothing can be committed without them."""
        return tuple(member for member in elr if member not in isr) if len(isr) < min_insync else ()

    def changed(self, partition: Partition, min_insync: int) -> Partition:
        """The partition once the setting is another: its eligible leaders looked at anew, its epoch raised."""
        return attrs.evolve(
            partition,
            min_insync=min_insync,
            elr=self.eligible(min_insync, partition.isr, partition.elr),
            partition_epoch=partition.partition_epoch + 1,
        )

    def governed(self, state: MinInsyncState, partition: Partition) -> MinInsyncState:
        """The partition with a leader if it can have one; an epoch on if anything but who is fenced has changed."""
        old = state.partition
        leader = partition.leader
        if leader not in partition.isr or leader in partition.fenced:
            live = [broker for broker in range(self.brokers) if broker not in partition.fenced]
            candidates = [b for b in live if b in partition.isr] or [b for b in live if b in partition.elr]
            leader = candidates[0] if candidates else NONE
        if leader != NONE and leader not in partition.isr:
            elr = self.eligible(partition.min_insync, (leader,), partition.elr)
            partition = attrs.evolve(partition, isr=(leader,), elr=elr)
        if leader != old.leader:
            partition = attrs.evolve(partition, leader=leader, leader_epoch=old.leader_epoch + 1)
        if attrs.evolve(partition, fenced=old.fenced) != old:
            partition = attrs.evolve(partition, partition_epoch=old.partition_epoch + 1)
        ends = state.ends
        if leader not in (NONE, old.leader):
            ends = tuple(min(end, ends[leader]) for end in ends)
        return attrs.evolve(state, partition=partition, ends=ends)


_OF_BROKERS = (Append, Replicate, Commit, Learn, Lapse, Unfence)


def candidates_are_complete(state: MinInsyncState) -> bool:
    """Whoever may be elected cleanly has every committed record."""
    return all(state.ends[broker] >= state.committed for broker in (*state.partition.isr, *state.partition.elr))


# --- as it should not be ---------------------------------------------------------------------------------------------


@attrs.frozen
class RaisesNoEpoch(MinInsync):
    """A change of the setting is no change of the partition: a leader that does not know of it alters the ISR."""

    def changed(self, partition: Partition, min_insync: int) -> Partition:
        return attrs.evolve(super().changed(partition, min_insync), partition_epoch=partition.partition_epoch)


@attrs.frozen
class KeepsTheEligible(MinInsync):
    """Who was eligible stays so when fewer must be in sync."""

    def changed(self, partition: Partition, min_insync: int) -> Partition:
        return attrs.evolve(super().changed(partition, min_insync), elr=partition.elr)
