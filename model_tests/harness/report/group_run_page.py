"""The group of a simulated run as a page to walk through: what coordinators decided, and what else might have come.

Beside what was decided, a state offers the time-outs and departures that the specification allows there. They lead on
to further ones, and not back to the run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

import attrs

from tidegauge.model_tests.harness.report.group_run import Decided, GroupLife, Moment, besides, changed, life_of
from tidegauge.model_tests.harness.report.model import PartyView, Step
from tidegauge.model_tests.harness.report.run_page import SAID, NoSuchStretchError, Stretch
from tidegauge.model_tests.harness.report.state_space import Broken, Choice, Path, Place, StateSpace
from tidegauge.model_tests.harness.report.walk_page import render_walk
from tidegauge.model_tests.harness.simulation.group_campaign import simulate_group
from tidegauge.model_tests.harness.simulation.group_options import GroupOptions
from tidegauge.model_tests.harness.simulation.group_roles import CORRECT, CoordinatorRoles
from tidegauge.model_tests.harness.simulation.simulated_member import NAME

MACHINE: Final = "coordinators of a group"
ENDING: Final = "Here the page ends: it has decisions of the run, and time-outs and departures beside them."

Lanes: TypeAlias = tuple[str, ...]


def page_of_group_run(
    options: GroupOptions, stretch: Stretch, reproduce: str, roles: CoordinatorRoles = CORRECT
) -> str:
    """Run it again and write the page as one HTML document; `reproduce` is the command that writes it.

    `stretch` is of the group, and of no partition. Raises NoSuchStretchError for a step that is not there.
    """
    life = life_of(simulate_group(options, roles, until_wrong=True).trace, NAME)
    told = options.cluster.described()
    facts: dict[str, str] = {**options.described(), **{name: told[name] for name in SAID}}
    space = space_of(life, first_of(life, stretch), stretch, facts)
    return render_walk(space, title=f"Seed {options.cluster.seed}, group {NAME}", reproduce=reproduce)


def first_of(life: GroupLife, stretch: Stretch) -> int:
    """The first step of a page, from 1 on: as it was asked, or so that the page ends with what is wrong."""
    of = len(life.decided)
    first = stretch.first
    if first is None:
        first = max(1, of - stretch.steps + 1) if life.wrong else 1
    if first > max(1, of):
        raise NoSuchStretchError(f"step {first} is behind the end: the group has {of} steps in this run")
    return first


def space_of(life: GroupLife, first: int, stretch: Stretch, facts: Mapping[str, str]) -> StateSpace:
    """So many decisions, and around the first of them so many states to which time-outs and departures lead."""
    last = min(len(life.decided), first + stretch.steps - 1)
    lanes = life.lanes(first, last)
    moments = list(life.moments[first - 1 : last + 1])
    on_the_way = len(moments)
    found: dict[tuple[object, ...], int] = {}
    places = []
    for number, moment in enumerate(moments):  # which grow meanwhile
        here = _step(lanes, moment)
        choices = []
        if number + 1 < on_the_way:
            choices.append(_decision(lanes, here, moment, life.decided[first - 1 + number], number + 1))
        for name, detail, after in besides(moment, life.called):
            key = _known(after)
            if key not in found and len(moments) < stretch.states:
                found[key] = len(moments)
                moments.append(after)
            then = _step(lanes, after, name, detail)
            choices.append(Choice(here, then, tuple(changed(moment.values, after.values)), found.get(key), ()))
        places.append(Place(here, tuple(choices), ()))
    way = f"what coordinators decided, step {first:,} and on"
    if life.wrong and last == len(life.decided):
        way = f"{way}, until one is no action of the specification"
    told = {
        "steps here": f"{first:,} to {last:,} of {len(life.decided):,}",
        "left out": f"{life.left_out:,} decisions that changed nothing and refused nobody",
        **facts,
    }
    path = Path(way, 0, (0,) * (on_the_way - 1), 0)
    return StateSpace(MACHINE, told, tuple(places), (0,), (path,), is_whole=False, ending=ENDING)


def _decision(lanes: Lanes, here: Step, before: Moment, one: Decided, target: int) -> Choice:
    after = attrs.evolve(_step(lanes, one.after, one.name, one.detail), arrows=one.arrows)
    broken = (Broken("The specification", one.wrong, {}),) if one.wrong else ()
    return Choice(here, after, tuple(changed(before.values, one.after.values)), target, broken)


def _step(lanes: Lanes, moment: Moment, name: str = "", detail: str = "") -> Step:
    return Step(name, detail, (), parties=tuple(PartyView(lane, moment.values.get(lane, {})) for lane in lanes))


def _known(moment: Moment) -> tuple[object, ...]:
    """What tells states apart to which time-outs and departures lead: what is asked and told next does not matter."""
    return tuple((at.node, at.leader_epoch, at.group) for at in moment.at)
