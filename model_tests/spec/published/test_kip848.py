"""Our explorer and TLC agree on the published KIP-848 models: states, levels, steps, and shortest counterexamples."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate

import attrs
import pytest

from tidegauge.spec.kernel.exploration import Engine
from tidegauge.spec.kernel.explorer import Stop, explore
from tidegauge.spec.kernel.progress import Limits
from tidegauge.spec.published.kip848 import variants
from tidegauge.spec.published.kip848.machine import FirstKip848, Kip848
from tidegauge.spec.published.kip848.rules import REACHED_FROM, became, may_become
from tidegauge.spec.published.kip848.state import Client, ClientStatus


@attrs.frozen
class Found:
    """What TLC found of one model; where it was cut, up to which level, of which the last was expanded too."""

    machine: Kip848
    distinct: int
    generated: int
    taken: Mapping[str, int]
    """Steps by action, without those that are never taken."""
    levels: tuple[int, ...]
    cut: bool = False


def steps(
    send: int, error: int, success: int, complete: int, start: int, leave: int, crash: int, *handled: int
) -> dict[str, int]:
    """By action, in the order in which the machine has them; the last are the coordinator's."""
    counts = (send, error, success, complete, start, leave, crash, *handled)
    named = zip((kind.__name__ for kind in Kip848.action_types), counts, strict=True)
    return {name: count for name, count in named if count}


# fmt: off
FIRST_LEVELS = (
    1, 2, 4, 6, 16, 30, 50, 72, 100, 124, 144, 178, 192, 188, 176, 168, 164, 148, 140, 144, 152, 172, 184, 180, 180,
    180, 160, 140, 124, 92, 64, 44, 24, 12, 4,
)
LEVELS = (
    1, 2, 4, 8, 18, 40, 76, 128, 182, 254, 360, 388, 368, 316, 252, 184, 160, 180, 200, 220, 216, 196, 140, 76, 32, 8,
)
FOUND = {
    "first": Found(
        FirstKip848(), 3_759, 7_975, steps(2_076, 0, 2_608, 816, 0, 0, 0, 2_474, 0, 0, 0, 0), FIRST_LEVELS,
    ),
    "first, 2 partitions": Found(
        FirstKip848(partitions_per_topic=2), 9_519, 20_535,
        steps(5_292, 0, 6_664, 2_208, 0, 0, 0, 6_370, 0, 0, 0, 0), (),
    ),
    "second": Found(Kip848(), 4_009, 9_511, steps(2_506, 0, 2_884, 1_744, 0, 0, 0, 2_376, 0, 0, 0, 0), LEVELS),
    "second, 2 partitions": Found(
        Kip848(partitions_per_topic=2), 7_673, 17_983, steps(4_922, 0, 5_516, 2_912, 0, 0, 0, 4_632, 0, 0, 0, 0), (),
    ),
    "second, 2 topics": Found(
        Kip848(topics=2), 7_673, 17_983, steps(4_922, 0, 5_516, 2_912, 0, 0, 0, 4_632, 0, 0, 0, 0), (),
    ),
    "second, 2 topics, 1 perturbation": Found(
        Kip848(topics=2, max_perturbations=1), 6_315, 24_999,
        steps(5_422, 64, 5_138, 2_524, 1_102, 688, 1_102, 7_106, 60, 226, 1_510, 56),
        (1, 6, 12, 22, 70, 218, 668, 1_628, 3_690), cut=True,
    ),
}
LARGE = {
    "first, 1 perturbation": Found(
        FirstKip848(max_perturbations=1), 27_081, 84_183,
        steps(19_136, 546, 20_694, 5_704, 1_784, 1_716, 1_784, 22_074, 346, 1_992, 2_090, 6_316),
        (1, 2, 4, 8, 26, 78, 190, 394, 812, 1_464, 2_586, 4_304, 6_878, 10_334), cut=True,
    ),
    "second, 1 perturbation": Found(
        Kip848(max_perturbations=1), 16_953, 56_833,
        steps(13_098, 410, 12_176, 4_968, 2_352, 2_036, 2_352, 13_002, 238, 886, 2_784, 2_530),
        (1, 2, 4, 10, 30, 94, 260, 608, 1_282, 2_392, 4_432, 7_838), cut=True,
    ),
}
SHORTEST = {
    variants.AssignBeforeRevoke: (0, "NoDoubleClientAssignment", 9),
    variants.RevokeWithoutAcknowledgement: (0, "ValidMemberEpoch", 13),
    variants.FencedKeepsAssignment: (1, "ValidMemberEpoch", 14),
    variants.FirstAssignBeforeRevoke: (0, "NoDoubleClientAssignment", 9),
    variants.FirstRevokeWithoutAcknowledgement: (0, "ValidMemberEpoch", 13),
    variants.FirstFencedKeepsAssignment: (1, "ValidMemberEpoch", 14),
}
"""Variant -> perturbations, the invariant that is violated first, states of the shortest trace to it."""
# fmt: on


@pytest.mark.parametrize("engine", Engine)
@pytest.mark.parametrize("name", [*FOUND, *(pytest.param(name, marks=pytest.mark.deep) for name in LARGE)], ids=str)
def test_states_levels_and_steps_are_those_of_tlc(name: str, engine: Engine) -> None:
    tlc = {**FOUND, **LARGE}[name]
    # A search that is cut at a depth does not expand its last level; TLC has.
    limits = Limits(depth=len(tlc.levels) + 1) if tlc.cut else Limits()
    found = explore(tlc.machine, limits=limits, converges=not tlc.cut, engine=engine)
    assert found.holds
    assert found.engine is engine
    assert found.generated + found.levels[0] == tlc.generated
    assert {one.action: one.taken for one in found.coverage if one.taken} == tlc.taken
    if tlc.levels:
        assert found.levels[: len(tlc.levels)] == tlc.levels
    levels = list(accumulate(found.levels))
    assert levels[len(tlc.levels) - 1 if tlc.cut else -1] == tlc.distinct


@pytest.mark.parametrize(
    "variant",
    [pytest.param(one, marks=[pytest.mark.deep] * (one is variants.FirstFencedKeepsAssignment)) for one in SHORTEST],
)
def test_shortest_counterexamples_are_those_of_tlc(variant: type[Kip848]) -> None:
    perturbations, invariant, length = SHORTEST[variant]
    for engine in Engine:
        found = explore(variant(max_perturbations=perturbations), stop=Stop.FIRST, engine=engine)
        assert [(one.invariant, len(one.trace)) for one in found.violations] == [(invariant, length)]


def test_a_transition_that_the_protocol_does_not_have_is_an_error() -> None:
    client = Client((1,), ClientStatus.UNSUBSCRIBED)
    assert not may_become(client.status, ClientStatus.STABLE)
    with pytest.raises(AssertionError, match="UNSUBSCRIBED → STABLE"):
        became(client, ClientStatus.STABLE)
    assert all(became(attrs.evolve(client, status=one), one).status == one for one in ClientStatus)
    assert REACHED_FROM.keys() == set(ClientStatus)


@pytest.mark.parametrize("constant", ["clients", "topics", "partitions_per_topic"])
def test_constants_that_fit_no_state_are_refused_by_name(constant: str) -> None:
    with pytest.raises(ValueError, match=f"{constant}=0"):
        next(iter(Kip848(**{constant: 0}).initial()))


def test_a_violation_shows_who_owns_what() -> None:
    found = explore(variants.AssignBeforeRevoke())
    values = dict(found.violations[0].values)
    assert values["owned"] == [((1, 1),), ((1, 1),)]
    assert values["epochs"] == [1, 2]
