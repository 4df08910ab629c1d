"""A wrong rule for every rule of classic groups: what the machine would do without what the rule is for.

A mutant takes the machine, the right rule, and the rule's arguments. It is found in the smallest model that shows it:
by an invariant, by a step invariant, or by a goal that no behaviour reaches for good. What the zoo shows
(`spec.bugs.groups`) is not repeated here.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import attrs

from tidegauge.spec.groups.classic.machine import ClassicGroups
from tidegauge.spec.groups.classic.state import NONE, Error, Phase, Share, Status
from tidegauge.spec.kernel.bounds import Bounds

ONE: Final = ClassicGroups(processes=1, partitions=1)
TWO: Final = ClassicGroups()
COOPERATIVE: Final = ClassicGroups(cooperative=True)
ZOMBIE: Final = ClassicGroups(instances=(0, 0), partitions=1, commits=1)

STABLE: Final = "every process that goes on is in one stable generation"
OWNED: Final = "what somebody wants somebody owns"
GONE: Final = "who is gone is in no group"

Wrong = Callable[..., Any]
"""What is done instead: takes the machine, the right rule, and the rule's arguments."""


@attrs.frozen
class RuleMutant:
    """One wrong rule, the model that shows it, and what is violated first there."""

    name: str
    rule: str
    wrong: Wrong
    model: ClassicGroups
    violates: str
    also: tuple[str, ...] = ()
    """What is violated after that, if the search goes on."""

    @property
    def machine(self) -> ClassicGroups:
        """The model with the wrong rule."""
        right, wrong = getattr(ClassicGroups, self.rule), self.wrong

        def mutant(machine: ClassicGroups, *args: object, **kwargs: object) -> object:
            return wrong(machine, partial(right, machine), *args, **kwargs)

        kind = type(self.name, (ClassicGroups,), {self.rule: mutant, "__doc__": self.name})
        machine: ClassicGroups = kind(**attrs.asdict(self.model, recurse=False))
        return machine


def _once(model: ClassicGroups, *perturbations: str, **constants: Any) -> ClassicGroups:
    return attrs.evolve(model, bounds=Bounds(dict.fromkeys(perturbations, 1)), **constants)


def _always(outcome: object) -> Wrong:
    return lambda machine, right, *args, **kwargs: outcome


def _evolved(**changes: object) -> Wrong:
    """The right outcome, but for these fields."""
    return lambda machine, right, *args, **kwargs: attrs.evolve(right(*args, **kwargs), **changes)


def _but(error: Error) -> Wrong:
    """The right error, but for one that is not told."""
    return lambda machine, right, *args: Error.NONE if right(*args) is error else right(*args)


# fmt: off
MUTANTS: Final[tuple[RuleMutant, ...]] = (
    # --- who is a member
    RuleMutant("fences_everybody", "member_error",
               lambda m, right, group, instance, member_id: Error.FENCED_INSTANCE_ID if instance != NONE
               else right(group, instance, member_id), attrs.evolve(ONE, instances=(0,)), "OnlyTheReplacedAreFenced"),
    RuleMutant("takes_the_first_protocol_only", "has_protocol",
               lambda m, right, group, protocols: right(group, protocols[:1]),
               attrs.evolve(TWO, protocols=((0,), (1, 0))), "OnlyTheReplacedAreFenced"),
    RuleMutant("selects_what_the_last_one_likes", "selected_protocol",
               lambda m, right, members: members[-1].protocols[0],
               attrs.evolve(TWO, protocols=((0,), (1, 0))), "AllKnowTheProtocol"),
    # --- rebalances
    RuleMutant("takes_every_join_for_a_repeat", "rejoining_rebalances", _always(False),
               _once(TWO, "AddPartition", partitions=1), OWNED),
    RuleMutant("keeps_who_has_left", "removed", lambda m, right, group, member_id: group,
               _once(ONE, "Leave"), GONE),
    RuleMutant("waits_for_nobody", "have_all_joined", _always(True), TWO, "OnlyTheLateAreRemoved"),
    RuleMutant("lets_nobody_stay", "stays", lambda m, right, member: member.instance != NONE,
               ONE, "OnlyTheLateAreRemoved"),
    RuleMutant("elects_nobody", "elected", _always(NONE), ONE, STABLE),
    RuleMutant("counts_no_generations", "next_generation", lambda m, right, group: 1,
               TWO, "OneAssignmentOfAGeneration"),
    RuleMutant("counts_down", "next_generation", lambda m, right, group: 9 - group.generation,
               _once(ONE, "Leave"), "GenerationsRise"),
    RuleMutant("watches_nobody", "may_expire_session", _always(False), _once(ONE, "Crash"), GONE),
    # --- requests
    RuleMutant("gives_out_what_is_not_shared", "sync_error", _but(Error.ILLEGAL_GENERATION),
               _once(TWO, "DelaySync", "LoseConnection"), "NobodyWaitsInVain"),
    RuleMutant("tells_no_rebalance", "heartbeat_error", _but(Error.REBALANCE_IN_PROGRESS), TWO, STABLE),
    RuleMutant("takes_commits_of_any_generation", "commit_error", _but(Error.ILLEGAL_GENERATION),
               _once(TWO, "DelayCommit", commits=2, requires_id=False), "OwnersCommit", also=("OffsetsDoNotGoBack",)),
    RuleMutant("takes_commits_of_anybody", "commit_error", _always(Error.NONE), ZOMBIE, "OneCommitter"),
    RuleMutant("leaves_the_last_one_out", "shared_out",
               lambda m, right, group, request: right(group, attrs.evolve(request, shares=request.shares[:-1])),
               TWO, "SharedOutOnce"),
    # --- the log
    RuleMutant("writes_no_partitions", "record",
               lambda m, right, group: right(group.unassigned()), ONE, "SharedOutOnce"),
    RuleMutant("shares_out_twice", "takes_shares", _always(True),
               _once(ONE, "LoseConnection", "AddPartition", "FailOver"), "OneAssignmentOfAGeneration"),
    RuleMutant("takes_every_record_for_the_present", "is_current",
               lambda m, right, group, record: (bool(record.members) and group.status is Status.PREPARING_REBALANCE)
               or right(group, record), _once(TWO, "FailOver"), "StableIsLogged"),
    RuleMutant("tells_too_soon", "tells_when_committed", _always(False),
               _once(ONE, "FailOver", commits=1), "ToldIsKept"),
    # --- members
    RuleMutant("never_joins_again", "wants_to_join", _always(False), TWO, STABLE),
    RuleMutant("keeps_all_while_it_joins", "kept_on_joining", lambda m, right, process: process.owned,
               TWO, "RevokedBeforeGiven"),
    RuleMutant("says_nothing_of_what_it_has", "says",
               lambda m, right, process: attrs.evolve(right(process), owned=()), COOPERATIVE, "RevokedBeforeGiven"),
    RuleMutant("commits_while_it_joins", "may_commit",
               lambda m, right, process: process.phase in (Phase.JOINING, Phase.JOINED, Phase.SYNCING, Phase.STABLE),
               attrs.evolve(COOPERATIVE, commits=1), "OwnersCommit"),
    RuleMutant("says_not_that_it_gave_back", "after_sync", _evolved(rejoin=False), COOPERATIVE, OWNED),
    RuleMutant("keeps_what_it_was_not_given", "after_sync",
               lambda m, right, process, partitions: attrs.evolve(
                   right(process, partitions), owned=tuple(sorted({*process.owned, *partitions}))),
               COOPERATIVE, "StableMeansAgreed"),
    RuleMutant("goes_on_from_the_beginning", "after_sync",
               lambda m, right, process, partitions: attrs.evolve(
                   right(process, partitions), positions=(0,) * m.most_partitions),
               attrs.evolve(TWO, commits=1), "MembersKnowTheirOffsets"),
    RuleMutant("trusts_its_last_shares", "known_on_joining",
               lambda m, right, process, generation, partitions: partitions,
               _once(ONE, "LoseConnection", "AddPartition", "FailOver"), OWNED),
    RuleMutant("notices_nothing", "notices", _always(False), _once(ONE, "AddPartition"), OWNED),
    # --- the leader
    RuleMutant("forgets_a_partition", "target",
               lambda m, right, members, partitions: right(members, partitions - 1), TWO, "SharedOutOnce"),
    RuleMutant("gives_all_to_everybody", "shares",
               lambda m, right, members, partitions: tuple(
                   Share(member_id, tuple(range(partitions))) for member_id, _ in members),
               TWO, "SharedOutOnce", also=("OneOwnerOfAGeneration",)),
    RuleMutant("gives_away_what_others_have", "is_free", _always(True), COOPERATIVE, "RevokedBeforeGiven"),
)
# fmt: on
