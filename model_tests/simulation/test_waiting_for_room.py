"""A replica that lacks room or descriptors refuses everybody, and its trace says so: anything else is found."""

from __future__ import annotations

from functools import cache

import attrs
import pytest

from tidegauge.impl.server.trace import events
from tidegauge.impl.server.trace.tracer import TraceEvent
from tidegauge.model_tests.harness.simulation.options import Options, draw
from tidegauge.model_tests.harness.simulation.simulation import traced
from tidegauge.model_tests.harness.validation.incarnations import with_values
from tidegauge.model_tests.simulation.test_validation import held_against


@cache
def sound_run(seed: int, drawn_as: int | None = None) -> tuple[Options, tuple[TraceEvent, ...]]:
    """The trace of a seed, with its own options or those that another seed draws, which holds."""
    options = attrs.evolve(draw(seed if drawn_as is None else drawn_as), seed=seed)
    trace = tuple(traced(options))
    assert held_against(trace, options).holds
    return options, trace


def test_a_replica_without_room_is_silent_until_it_has_some() -> None:
    options, trace = sound_run(206)
    waits = next(place for place, event in enumerate(trace) if isinstance(event.decision, events.WaitForRoom))
    node = trace[waits].node
    refuses = next(
        place
        for place, event in enumerate(trace[waits:], waits)
        if event.node == node and isinstance(event.decision, events.RefuseFetch)
    )
    unsaid = held_against((*trace[:waits], *trace[waits + 1 :]), options)
    assert unsaid.mismatch is not None
    assert unsaid.mismatch.position == refuses - 1, "it says nothing of waiting, and refuses"
    own = next(event for event in reversed(trace[:waits]) if event.node == node and event.name == "Append")
    speaks = held_against((*trace[: waits + 1], own, *trace[waits + 1 :]), options)
    assert speaks.mismatch is not None
    assert speaks.mismatch.position == waits + 1, "it appends though it waits"


@pytest.mark.parametrize("field", ["log_end_offset", "high_watermark", "log_start"])
def test_a_replica_that_has_room_again_has_what_it_had(field: str) -> None:
    """Retention had removed a segment before the disk failed: of that the trace says no more than the new log start."""
    options, trace = sound_run(597)
    place = next(place for place, event in enumerate(trace) if isinstance(event.decision, events.HasRoom))
    decision = trace[place].decision
    assert isinstance(decision, events.HasRoom)
    state = attrs.evolve(decision.state, **{field: getattr(decision.state, field) + 1})
    said = attrs.evolve(trace[place], decision=with_values(decision, state=state))
    done = held_against((*trace[:place], said, *trace[place + 1 :]), options)
    assert done.mismatch is not None
    assert done.mismatch.position == place


@pytest.mark.parametrize("field", ["log_end_offset", "high_watermark"])
def test_a_replica_that_met_its_lack_of_room_behind_a_cut_has_cut_where_its_leader_said(field: str) -> None:
    options, trace = sound_run(209, drawn_as=3492)
    place, decision = next(
        (place, event.decision)
        for place, event in enumerate(trace)
        if isinstance(event.decision, events.HasRoom) and event.decision.state.log_end_offset == 13
    )
    for wrong in (-1, 1):
        state = attrs.evolve(decision.state, **{field: getattr(decision.state, field) + wrong})
        said = attrs.evolve(trace[place], decision=with_values(decision, state=state))
        done = held_against((*trace[:place], said, *trace[place + 1 :]), options)
        assert done.mismatch is not None
        assert done.mismatch.position == place
