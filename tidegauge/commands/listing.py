"""`tidegauge list`: what can be explored, replayed and broken, by the names that the other commands take."""

from __future__ import annotations

import sys
from typing import Annotated, Any

from cyclopts import Parameter

from tidegauge.exits import Status
from tidegauge.screen import Screen, write_json
from tidegauge.spec.kernel.constants import settable
from tidegauge.spec.kernel.meaning import summary
from tidegauge.spec.registry import REGISTRY, Registration

Flag = Annotated[bool, Parameter(negative="")]


def list_specifications(spec: str | None = None, *, json: Flag = False) -> Status:
    """List the machines; or of one its constants, its models, its properties, and the bugs that can be switched on.

    Parameters
    ----------
    spec
        A machine, or a model of one.
    json
        Print one JSON document and nothing else.
    """
    if json:
        chosen = REGISTRY if spec is None else (REGISTRY.registration(spec),)
        write_json("list", Status.HOLDS, {"machines": [document(one) for one in chosen]}, has_verdict=False)
        return Status.HOLDS
    screen = Screen("list", json=False)
    if spec is None:
        show_machines(screen)
    else:
        show_machine(screen, REGISTRY.registration(spec))
    return Status.HOLDS


def show_machines(screen: Screen) -> None:
    rows = [[one.name, len(one.models), len(REGISTRY.bugs_of(one.machine)), told(one)] for one in REGISTRY]
    screen.table(["machine", "models", "bugs", "what it is about"], rows, named=True)
    screen.say(
        "\ntidegauge list MACHINE: its constants, models, properties and bugs. tidegauge explore NAME explores it."
    )


def show_machine(screen: Screen, one: Registration) -> None:
    machine = one.machine
    screen.say(f"{one.name}: {told(one)}", style="bold")
    screen.say("constants  " + "  ".join(f"{name}={value}" for name, value in settable(machine).items()))
    properties = {**machine.invariants, **machine.step_invariants}
    tables: list[tuple[list[str], list[list[str]]]] = [
        (["invariant", "what it says"], [[name, summary(holds)] for name, holds in properties.items()]),
        (["model", "what it shows"], [[model.name, model.shows] for model in one.models]),
        (
            ["bug", "what goes wrong", "reference", "violates"],
            [
                [bug.name, bug.title, bug.reference, ", ".join(bug.violates)]
                for bug in REGISTRY.bugs_of(machine).values()
            ],
        ),
    ]
    for what, names in (
        ("holds for good in the end", machine.converges),
        ("comes whenever it is owed", machine.leads_to),
    ):
        for name in names:
            screen.say(f"{what}: {name}")
    for columns, rows in tables:
        if rows:
            screen.say()
            screen.table(columns, rows, named=True)


def told(one: Registration) -> str:
    """What a machine is about: the first line of the module that has the last of its classes.

    Of the class, where several machines have theirs in one module.
    """
    last = one.machine.kinds[-1]
    machines = [other for other in REGISTRY if other.machine.kinds[-1].__module__ == last.__module__]
    doc = sys.modules[last.__module__].__doc__ if len(machines) == 1 else last.__doc__
    return (doc or "").partition("\n")[0]


def document(one: Registration) -> dict[str, Any]:
    machine = one.machine
    return {
        "name": one.name,
        "what": told(one),
        "constants": settable(machine),
        "invariants": {
            name: summary(holds) for name, holds in (*machine.invariants.items(), *machine.step_invariants.items())
        },
        "converges": list(machine.converges),
        "leads_to": list(machine.leads_to),
        "models": [{"name": model.name, "shows": model.shows} for model in one.models],
        "bugs": [
            {"name": bug.name, "title": bug.title, "reference": bug.reference, "violates": bug.violates}
            for bug in REGISTRY.bugs_of(machine).values()
        ],
    }
