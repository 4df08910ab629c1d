"""What coordinators decide about the offsets of groups is held against the specification; what is else is found."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any
from unittest.mock import patch

import attrs
import pytest
from kio.schema.errors import ErrorCode

from tidegauge.impl.coordinators.groups.coordinator import GroupCoordinator
from tidegauge.impl.coordinators.groups.log_entries import LogEntry, OffsetWritten
from tidegauge.impl.coordinators.groups.offsets import GroupOffsets
from tidegauge.impl.coordinators.groups.record_formats import OffsetKey
from tidegauge.impl.coordinators.groups.requests import Commit, Ruling
from tidegauge.impl.server.broker.groups import Groups
from tidegauge.impl.server.trace import group_offsets
from tidegauge.impl.server.trace.events import RemoveReplica
from tidegauge.impl.server.trace.tracer import TraceEvent
from tidegauge.model_tests.harness.cores.offsets import OffsetRoles
from tidegauge.model_tests.harness.registry import HARNESS
from tidegauge.model_tests.harness.simulation.group_campaign import simulate_group
from tidegauge.model_tests.harness.simulation.group_options import draw_group
from tidegauge.model_tests.harness.simulation.simulation import simulate
from tidegauge.model_tests.harness.simulation.transacting_options import draw_transacting
from tidegauge.model_tests.harness.validation.coordinated import ValidatedGroups, validate_group_coordinators
from tidegauge.model_tests.harness.validation.incarnations import with_values
from tidegauge.model_tests.harness.verification.campaigning import draw_group_with
from tidegauge.model_tests.simulation.group_runs import run_of

MACHINE = "offsets"
SEED = 13
"""Of coordinators that fail over five times, and load a log that was cleaned."""
IN_TRANSACTIONS = 204
Decided = group_offsets.OfOffsets
Tampered = Callable[[Any], Decided]


def trace() -> tuple[TraceEvent, ...]:
    return run_of(SEED).trace


def validated(events: tuple[TraceEvent, ...]) -> ValidatedGroups:
    return validate_group_coordinators(events, HARNESS.followers)


def place_of(kind: type[Decided], when: Callable[[Any], bool] = lambda one: True) -> int:
    """Where the last such decision is."""
    return next(
        at for at, event in reversed([*enumerate(trace())]) if isinstance(event.decision, kind) and when(event.decision)
    )


def put(place: int, *decisions: Any) -> tuple[TraceEvent, ...]:
    """The trace with these decisions in the place of one."""
    new = (attrs.evolve(trace()[place], decision=decision) for decision in decisions)
    return (*trace()[:place], *new, *trace()[place + 1 :])


def test_every_decision_of_a_run_is_a_step_of_the_specification() -> None:
    found = validated(trace())
    assert found.holds, found
    kinds = {"Load", "Commit", "Append", "Apply", "RespondToCommit", "FetchStable", "Delete"}
    assert kinds <= set(found.actions[MACHINE])
    loads = [event.decision for event in trace() if isinstance(event.decision, group_offsets.Load)]
    places = max(([one.log_offset for one in load.entries] for load in loads), default=[])
    assert places[-1] - places[0] >= len(places), "a log was loaded that the cleaner had been at"


def test_offsets_in_transactions_are_followed_through_their_markers() -> None:
    run = simulate(draw_transacting(IN_TRANSACTIONS))
    assert run.groups is not None
    assert run.groups.holds, run.groups
    assert {"CommitInTransaction", "Apply", "EndTransaction", "RespondToMarker", "Load"} <= set(
        run.groups.actions[MACHINE]
    )


def first(entries: tuple[LogEntry, ...], **values: Any) -> tuple[LogEntry, ...]:
    """The entries with another first offset."""
    at = next(at for at, one in enumerate(entries) if isinstance(one, OffsetWritten))
    return (*entries[:at], entries[at]._replace(**values), *entries[at + 1 :])


def is_committed(found: object) -> bool:
    return found is not None and not isinstance(found, ErrorCode)


@pytest.mark.parametrize(
    ("kind", "when", "change", "reason"),
    [
        (
            group_offsets.Expire,
            lambda one: True,
            lambda one: with_values(one, empty_since=tuple((group, one.now_ms) for group, _ in one.empty_since)),
            "and in the specification it does not",
        ),
        (
            group_offsets.Apply,
            lambda one: bool(one.after),
            lambda one: with_values(one, after=one.after[1:]),
            "it knows Store",
        ),
        (
            group_offsets.Apply,
            lambda one: any(value is not None for _, value in one.written),
            lambda one: with_values(one, base_offset=one.base_offset + 1),
            "it knows Store",
        ),
        (group_offsets.Append, lambda one: True, lambda one: with_values(one, written=()), "not the first"),
        (
            group_offsets.Commit,
            lambda one: one.error is ErrorCode.none,
            lambda one: with_values(one, written=()),
            "it writes {}",
        ),
        (
            group_offsets.Commit,
            lambda one: one.error is ErrorCode.none and one.members,
            lambda one: with_values(one, error=ErrorCode.unknown_member_id, written=()),
            "the response is UNKNOWN_MEMBER_ID",
        ),
        (
            group_offsets.Load,
            lambda one: bool(one.after),
            lambda one: with_values(one, after=one.after[1:]),
            "it knows Store",
        ),
        (
            group_offsets.Load,
            lambda one: bool(one.entries),
            lambda one: with_values(one, entries=first(one.entries, value=None)),
            "it reads OffsetWritten",
        ),
        (
            group_offsets.FetchStable,
            lambda one: any(map(is_committed, one.found.values())),
            lambda one: with_values(one, found=dict.fromkeys(one.found)),
            "is told, in the specification",
        ),
        (
            group_offsets.FetchStable,
            lambda one: any(map(is_committed, one.found.values())),
            lambda one: with_values(one, found=dict.fromkeys(one.found, ErrorCode.unstable_offset_commit)),
            "the response is UNSTABLE_OFFSET_COMMIT, in the specification NONE",
        ),
        (
            group_offsets.Delete,
            lambda one: bool(one.written),
            lambda one: with_values(one, written=()),
            "it writes {}",
        ),
        (
            group_offsets.Delete,
            lambda one: bool(one.written),
            lambda one: with_values(one, members=1),
            "members may go by|NON_EMPTY_GROUP",
        ),
    ],
)
def test_a_value_that_was_tampered_with_is_found(
    kind: type[Decided], when: Callable[[Any], bool], change: Tampered, reason: str
) -> None:
    place = place_of(kind, when)
    found = validated(put(place, change(trace()[place].decision)))
    assert found.mismatch is not None
    assert int(found.mismatch.split()[1]) >= place
    with pytest.raises(AssertionError, match=reason):
        raise AssertionError(found.mismatch)


@pytest.mark.parametrize("kind", [group_offsets.Append, group_offsets.Apply, group_offsets.Load])
def test_a_decision_that_is_left_out_is_missed(kind: type[Decided]) -> None:
    assert not validated(put(place_of(kind))).holds


def test_what_is_committed_twice_is_found() -> None:
    place = place_of(group_offsets.Apply)
    decision = trace()[place].decision
    found = validated(put(place, decision, decision))
    assert found.mismatch is not None
    assert "what is committed is not the first that was written" in found.mismatch


# --- wrong coordinators ----------------------------------------------------------------------------------------------


class AsksNoMember(GroupCoordinator):
    """Every commit is taken."""

    def _commit_error(self, commit: Commit) -> tuple[ErrorCode, Mapping[tuple[str, int], ErrorCode]]:
        return ErrorCode.none, {}


class LetsGoAtOnce(GroupCoordinator):
    """An offset expires as soon as anybody looks, though members may need it."""

    def is_expired(self, key: OffsetKey, now_ms: int) -> bool:
        return self.offsets.get(key) is not None


class LoadsNoOffsets(GroupCoordinator):
    """What the log says of offsets a new coordinator does not take in."""

    def replay(self, entries: Iterable[LogEntry]) -> None:
        every = tuple(entries)
        super().replay(every)
        self.offsets.replay(
            one._replace(value=None) for one in every if isinstance(one, OffsetWritten) and one.value is not None
        )


class KeepsWhatIsDeleted(GroupOffsets):
    """A tombstone takes nothing away."""

    def _remove(self, key: OffsetKey) -> None:
        """Nothing goes."""


WRONG: Mapping[str, tuple[OffsetRoles, int, str]] = {
    "asks no member": (OffsetRoles(coordinator=AsksNoMember), 1, "Commit"),
    "lets go at once": (OffsetRoles(coordinator=LetsGoAtOnce), 1, "Expire"),
    "loads no offsets": (OffsetRoles(coordinator=LoadsNoOffsets), 1, "Load"),
    "keeps what is deleted": (OffsetRoles(offsets=KeepsWhatIsDeleted), 14, "Apply"),
}
"""What is wrong -> the classes, a seed that finds it, and the decision at which it does."""


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_coordinator_is_found_at_its_first_wrong_decision(name: str) -> None:
    roles, seed, decision = WRONG[name]
    mismatch = simulate_group(draw_group(seed), roles, until_wrong=True).coordinated.mismatch
    assert mismatch is not None
    assert f" {decision} " in mismatch.split("log_partition=", 1)[0]
    assert "offsets: " in mismatch


def test_who_is_told_before_it_is_committed_is_found() -> None:
    async def at_once(self: Groups, led: Any, ruling: Ruling, *of: Any, **said: Any) -> ErrorCode:
        if ruling.error is ErrorCode.none and ruling.offsets:
            led.state.appended(ruling)
            led.state.acknowledged(ruling)
        return ruling.error

    with patch.object(Groups, "carry_out", at_once):
        mismatch = simulate_group(draw_group(SEED), until_wrong=True).coordinated.mismatch
    assert mismatch is not None
    assert "a client is told that it is committed, and it is not" in mismatch


@pytest.mark.parametrize(("bug", "seed"), [("kafka_8587_told", 1), ("kafka_9235", 11)])
def test_a_bug_of_the_zoo_is_found_by_a_seed_of_the_campaign(bug: str, seed: int) -> None:
    run = simulate_group(draw_group_with(seed, bug), HARNESS.bug(bug).roles, until_wrong=True)
    assert "is no action of the specification" in str(run.coordinated)


def test_a_coordinator_without_its_replica_goes_on_in_no_run_without_the_bug() -> None:
    options = draw_group(11)
    assert options.moves
    run = simulate_group(options)
    assert not run.failures
    assert any(isinstance(one.decision, RemoveReplica) for one in run.trace), "the log was moved away from a leader"


def test_a_marker_that_is_acknowledged_too_early_is_found_by_a_seed_of_the_campaign_with_transactions() -> None:
    run = simulate(draw_transacting(2, "kafka_17507"))
    assert "a marker is acknowledged that the coordinator does not know of" in str(run.failures)
