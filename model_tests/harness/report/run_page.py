"""A partition's life in a simulated run as a page to walk through: what the cluster did, and what it might have done.

The cluster's trace is shown as the specification followed it. Each state offers all that the specification allows
there; what the cluster did comes first. A run has hundreds of steps, and each state a hundred choices or more, so a
page holds one stretch of a run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs

from tidegauge.model_tests.harness.report import replication
from tidegauge.model_tests.harness.report.state_space import Way, state_space
from tidegauge.model_tests.harness.report.walk_page import render_walk
from tidegauge.model_tests.harness.simulation.options import Options
from tidegauge.model_tests.harness.simulation.simulation import Simulated, simulate
from tidegauge.model_tests.harness.validation.behaviour import Behaviour
from tidegauge.model_tests.harness.validation.validation import Validated
from tidegauge.spec.kernel.traces import Trace

SAID: Final = ("brokers", "replication_factor", "min_insync_replicas", "unclean_leader_election", "acks", "faults")
"""Options that a page says."""


class NoSuchStretchError(ValueError):
    """The run has no such partition, or fewer steps."""


@attrs.frozen
class Stretch:
    """What of a run a page holds."""

    partition: str | None
    """As `orders-0`; None is the first one that leaves the specification, or else the first one."""
    first: int | None
    """Its first step, from 1 on; None is the beginning, or with a violation as far before that as there is room."""
    steps: int
    """At most so many."""
    states: int
    """Of the page, those of its steps and those near its first ones."""


def page_of_run(options: Options, stretch: Stretch, reproduce: str) -> str:
    """Run it again and write the page as one HTML document; `reproduce` is the command that writes it.

    Raises NoSuchStretchError.
    """
    return page_of(simulate(options, kept=True), stretch, reproduce)


def page_of(simulated: Simulated, stretch: Stretch, reproduce: str) -> str:
    """The same of a run whose states were kept."""
    chosen = partition_of(simulated.validated, stretch.partition)
    behaviour = chosen.behaviour
    if behaviour is None:
        raise NoSuchStretchError(f"seed {simulated.seed} follows no partition: there is nothing to walk through")
    way, first = stretch_of(chosen, behaviour, stretch)
    last, of = first + len(way.trace.steps) - 1, len(behaviour.trace.steps)
    facts = {"partition": chosen.name, "steps here": f"{first:,} to {last:,} of {of:,}", **told(simulated)}
    space = state_space(
        behaviour.machine,
        [way],
        draw=replication.steps,
        constants=facts,
        states=stretch.states,
        initial_too=False,
    )
    return render_walk(space, title=f"Seed {simulated.seed}, {chosen.name}", reproduce=reproduce)


def told(simulated: Simulated) -> dict[str, str]:
    """The options that say what kind of cluster it was, and its faults; the command on the page has them all."""
    described = simulated.options.described()
    return {name: described[name] for name in SAID}


def partition_of(found: Sequence[Validated], name: str | None) -> Validated:
    """The partition of that name, or the first one that leaves the specification, or else the first one."""
    kept = [one for one in found if one.behaviour is not None]
    if name is None and kept:
        return next((one for one in kept if not one.holds), kept[0])
    for one in kept:
        if one.name == name:
            return one
    there = ", ".join(one.name for one in kept) or "none that is followed"
    raise NoSuchStretchError(f"this run has no partition {name}: choose one of {there}")


def stretch_of(validated: Validated, behaviour: Behaviour, asked: Stretch) -> tuple[Way, int]:
    """The way that a page shows, and the number of its first step in the whole."""
    trace = behaviour.trace
    of = len(trace.steps)
    first = asked.first
    if first is None:
        first = 1 if validated.holds else max(1, of - asked.steps + 1)
    if first > max(1, of):
        raise NoSuchStretchError(f"step {first} is behind the end: {validated.name} has {of} steps in this run")
    begun = trace.states[first - 1]
    way = Trace(begun, trace.steps[first - 1 : first - 1 + asked.steps])
    name = f"what the cluster did, step {first:,} and on"
    reaches_end = first - 1 + len(way.steps) == of
    if validated.mismatch is not None and reaches_end:
        name = f"{name}, until {validated.mismatch.reason}"
    return Way(name, way), first
