"""What an old target gives the members of a consumer group (KIP-848) while the next one waits for its interval."""

from __future__ import annotations

import attrs

from tidegauge.impl.coordinators.groups.consumer.coordinator import ConsumerGroups, ConsumerLimits
from tidegauge.model_tests.coordinators.groups.test_consumer_groups import (
    BOTH,
    BY_EXPRESSION,
    GROUP,
    KNOWN,
    SESSION_MS,
    asked,
    at,
    beat,
    resolved,
    spaced,
)


def test_who_has_given_back_and_subscribes_again_waits_for_the_next_target() -> None:
    core = spaced()
    at(core, 5_001, asked("a", 2, topics=("others",), owned=BOTH))
    at(core, 5_002, asked("a", 2, topics=("others",)))
    assert at(core, 5_999, asked("a", 2)).assignment == frozenset(), "the old target has it for the member"
    told = at(core, 6_000, asked("a", 2))
    assert (told.epoch, told.assignment) == (core.groups[GROUP].target_epoch, BOTH)


def test_an_expression_that_is_resolved_again_gives_a_member_nothing_before_the_next_target() -> None:
    core = ConsumerGroups(ConsumerLimits(interval_ms=lambda group: 1_000))
    resolved(core, KNOWN, core.heartbeat(asked(**BY_EXPRESSION), KNOWN, SESSION_MS, 0))
    assert at(core, 6_000, asked("a", 1, **BY_EXPRESSION)).assignment == BOTH
    at(core, 6_001, asked("a", 2, topics=(), expression="", owned=BOTH))
    at(core, 6_002, asked("a", 2, topics=(), expression=""))
    again = core.heartbeat(asked("a", 2, **BY_EXPRESSION), attrs.evolve(KNOWN, time_ms=6_003), SESSION_MS, 0)
    assert resolved(core, KNOWN, again) is not None
    assert core.groups[GROUP].target["a"] == BOTH
    assert at(core, 6_999, asked("a", 2, **BY_EXPRESSION)).assignment == frozenset()
    assert at(core, 7_000, asked("a", 2, **BY_EXPRESSION)).assignment == BOTH


def test_what_others_have_still_a_member_is_given_by_an_old_target_too() -> None:
    core = spaced()
    at(core, 6_000, asked("b"))
    (place,) = core.groups[GROUP].target["b"]
    assert core.groups[GROUP].members["b"].is_waiting
    at(core, 6_001, asked("c"))
    at(core, 6_002, asked("a", 2, owned=BOTH))
    at(core, 6_003, asked("a", 2, owned=BOTH - {place}))
    assert core.groups[GROUP].target_epoch < core.groups[GROUP].epoch
    assert at(core, 6_004, asked("b", 3)).assignment == frozenset({place})


def test_what_an_expression_is_not_resolved_to_is_given_back_though_another_member_wants_it() -> None:
    """The group wants the same topics as before, and no epoch begins."""
    core = ConsumerGroups()
    resolved(core, KNOWN, core.heartbeat(asked(**BY_EXPRESSION), KNOWN, SESSION_MS, 0))
    beat(core, asked("b"))
    epoch = beat(core, asked("a", 1, **BY_EXPRESSION)).epoch
    owned = frozenset(core.groups[GROUP].members["a"].assigned)
    assert len(owned) == 1
    told = beat(core, asked("a", epoch, expression="or.*", topics=(), owned=owned))
    assert (told.epoch, told.assignment) == (epoch, frozenset())
    assert core.groups[GROUP].epoch == epoch
    assert set(core.groups[GROUP].members["a"].revoking) == owned
