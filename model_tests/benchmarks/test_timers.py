"""The timing wheel that the benchmark measures fires what a heap fires, at the same looks."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from benchmarks.timers import Timer, TimingWheel
from tidegauge.impl.coordinators.deadlines import Deadlines

TIMERS = st.integers(0, 9)
DELAYS = st.one_of(st.integers(-5, 25), st.integers(0, 9_000), st.integers(0, 200_000))
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("set"), TIMERS, DELAYS),
        st.tuples(st.just("cancel"), TIMERS, st.just(0)),
        st.tuples(st.just("look"), st.just(0), DELAYS.map(abs)),
    ),
    max_size=40,
)


@given(steps=STEPS, began=st.integers(0, 10_000))
def test_a_wheel_fires_what_a_heap_fires(steps: list[tuple[str, int, int]], began: int) -> None:
    heap, wheel = Deadlines[int](), TimingWheel(began)
    timers: dict[int, Timer] = {}
    now = began
    for what, key, delay in (*steps, ("look", 0, 300_000)):
        if what == "set":
            heap.set(key, now + delay)
            if key in timers:
                wheel.put_off(timers[key], now + delay)
            else:
                timers[key] = wheel.set(now + delay)
        elif what == "cancel":
            heap.cancel(key)
            if key in timers:
                wheel.cancel(timers.pop(key))
        else:
            now += delay
            due = sorted(heap.due(now))
            fired = wheel.due(now)
            assert sorted(key for key, timer in timers.items() if timer in fired) == due
            timers = {key: timer for key, timer in timers.items() if timer not in fired}
