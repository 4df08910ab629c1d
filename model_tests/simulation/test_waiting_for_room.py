"""A replica that lacks room or descriptors refuses everybody, and its trace says so: anything else is found."""

from __future__ import annotations

from tidegauge.impl.server.trace import events
from tidegauge.model_tests.harness.simulation.options import draw
from tidegauge.model_tests.harness.simulation.simulation import traced
from tidegauge.model_tests.simulation.test_validation import held_against


def test_a_replica_without_room_is_silent_until_it_has_some() -> None:
    options = draw(206)
    trace = tuple(traced(options))
    assert held_against(trace, options).holds
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
