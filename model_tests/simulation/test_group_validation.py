"""What coordinators of classic groups decide is held against the specification; a trace that says else is found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import attrs
import pytest
from kio.schema.errors import ErrorCode

from tidegauge.impl.server.trace import groups
from tidegauge.impl.server.trace.tracer import TraceEvent
from tidegauge.model_tests.bugs.groups import GROUP_BUGS
from tidegauge.model_tests.harness.registry import HARNESS
from tidegauge.model_tests.harness.simulation.group_campaign import simulate_group
from tidegauge.model_tests.harness.simulation.group_options import draw_group
from tidegauge.model_tests.harness.validation.coordinated import ValidatedGroups, validate_group_coordinators
from tidegauge.model_tests.harness.validation.incarnations import with_values
from tidegauge.model_tests.harness.verification.campaigning import ran_group
from tidegauge.model_tests.simulation.group_runs import run_of

SEED = 8
MACHINE = "classic-groups"
Tampered = Callable[[groups.OfGroup], groups.OfGroup | None]


def validate_groups(events: Sequence[TraceEvent]) -> ValidatedGroups:
    return validate_group_coordinators(events, HARNESS.followers)


def trace() -> tuple[TraceEvent, ...]:
    return run_of(SEED).trace


def of(kind: type[groups.OfGroup], when: Callable[[groups.OfGroup], bool] = lambda one: True) -> int:
    """Where the first such decision is."""
    return next(at for at, event in enumerate(trace()) if isinstance(event.decision, kind) and when(event.decision))


def matched(place: int) -> int:
    """How many decisions come before an event."""
    return sum(isinstance(event.decision, groups.OfGroups) for event in trace()[:place])


def tampered(place: int, change: Tampered) -> tuple[TraceEvent, ...]:
    event = trace()[place]
    assert isinstance(event.decision, groups.OfGroup)
    changed = change(event.decision)
    put = () if changed is None else (attrs.evolve(event, decision=changed),)
    return (*trace()[:place], *put, *trace()[place + 1 :])


def test_every_decision_of_a_run_is_an_action_of_the_specification() -> None:
    found = validate_groups(trace())
    assert found.holds, found
    assert found.events > 300
    assert {"ReceiveJoin", "ReceiveSync", "ReceiveHeartbeat", "LoadGroup", "CommitRecord", "ExpireSession"} <= set(
        found.actions[MACHINE]
    )


def after(decision: groups.OfGroup, **values: Any) -> groups.OfGroup:
    changed: groups.OfGroup = with_values(decision, after=decision.after._replace(**values))
    return changed


@pytest.mark.parametrize(
    ("kind", "change", "reason"),
    [
        (groups.ReceiveJoin, lambda one: after(one, generation=one.after.generation + 1), "generation is"),
        (groups.ReceiveJoin, lambda one: after(one, members=()), "member .* is none"),
        (groups.CommitRecord, lambda one: after(one, members=one.after.members[1:]), "member .* is none"),
        (groups.LoadGroup, lambda one: after(one, generation=one.after.generation + 1), "it loads"),
        (groups.ExpireSession, lambda one: None, ""),
    ],
)
def test_a_trace_that_was_tampered_with_is_found_where_it_was(
    kind: type[groups.OfGroup], change: Tampered, reason: str
) -> None:
    place = of(kind, lambda one: bool(one.after.members) or kind is groups.ExpireSession)
    found = validate_groups(tampered(place, change))
    assert found.mismatch is not None
    assert found.matched >= matched(place)
    if reason:
        assert found.matched == matched(place)
        with pytest.raises(AssertionError, match=reason):
            raise AssertionError(found.mismatch)


def test_a_record_that_was_not_written_is_missed() -> None:
    place = of(groups.ReceiveSync, lambda one: bool(one.written))
    found = validate_groups(tampered(place, lambda one: with_values(one, written=())))
    assert found.mismatch is not None
    assert found.matched == matched(place)
    assert "it writes [], the specification" in found.mismatch


def test_a_response_that_the_specification_does_not_give_is_found() -> None:
    place = of(groups.ReceiveHeartbeat, lambda one: getattr(one, "error", None) is ErrorCode.none)
    fenced = validate_groups(tampered(place, lambda one: with_values(one, error=ErrorCode.illegal_generation)))
    assert fenced.mismatch is not None
    assert "the response is ILLEGAL_GENERATION, in the specification NONE" in fenced.mismatch


@pytest.mark.parametrize(
    ("bug", "seed", "is_told"), [("kafka_9752", 1, True), ("kafka_12890", 22, False), ("kafka_9801", 14, False)]
)
def test_a_bug_of_the_coordinator_is_found_at_its_first_wrong_decision(bug: str, seed: int, *, is_told: bool) -> None:
    options = draw_group(seed, is_consumer=False)
    run = simulate_group(options, GROUP_BUGS[bug].roles, until_wrong=True)
    assert not run.coordinated.holds
    assert run.coordinated.events == run.coordinated.matched + 1, "the run ends there"
    if is_told:  # by `tidegauge simulate`, which runs it again: one bug shows that
        assert ran_group(seed, bug).failures[-1] == str(run.coordinated)
    assert simulate_group(options).coordinated.holds, "and without it all is right"
