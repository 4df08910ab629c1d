"""The specifications that can be named on the command line, with their constants as NAME=VALUE."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import attrs

from tidegauge.exits import Unusable
from tidegauge.spec.bugs import BUGS
from tidegauge.spec.bugs.idempotence import IDEMPOTENCE_BUGS
from tidegauge.spec.idempotence.machine import Idempotence
from tidegauge.spec.idempotence.models import IDEMPOTENCE_MODELS
from tidegauge.spec.published.kip320 import variants as kip320_variants
from tidegauge.spec.published.kip320.machine import Kip320
from tidegauge.spec.replication.machine import Replication
from tidegauge.spec.replication.models import MODELS

Model = Replication | Kip320 | Idempotence


def variants() -> Mapping[str, type[Kip320]]:
    """The published model's variants, by class name."""
    found = vars(kip320_variants).items()
    return {
        name: kind for name, kind in found if isinstance(kind, type) and issubclass(kind, Kip320) and kind != Kip320
    }


def replication_model(name: str, bug: str | None) -> Replication:
    """One of the models that verify explores, with a bug if one is named."""
    machine = MODELS[name].machine
    return BUGS[bug].buggy(**attrs.asdict(machine, recurse=False)) if bug else machine


def idempotence_model(name: str, bug: str | None) -> Idempotence:
    """One of the models of idempotent producers, with a bug if one is named."""
    machine = IDEMPOTENCE_MODELS[name].machine
    return IDEMPOTENCE_BUGS[bug].buggy(**attrs.asdict(machine, recurse=False)) if bug else machine


SPECS: Mapping[str, Callable[[str | None], Model]] = {
    "replication": lambda bug: BUGS[bug].machine() if bug else Replication(brokers=2, max_records=1),
    "kip320": lambda bug: variants()[bug]() if bug else Kip320(),
    **{name: partial(replication_model, name) for name in MODELS},
    "idempotence": lambda bug: IDEMPOTENCE_BUGS[bug].machine() if bug else Idempotence(max_attempts=2),
    **{name: partial(idempotence_model, name) for name in IDEMPOTENCE_MODELS},
}


def bugs_of(spec: str) -> tuple[str, ...]:
    if spec in MODELS and type(MODELS[spec].machine) is not Replication:
        return ()
    if spec.startswith("idempotence"):
        return tuple(IDEMPOTENCE_BUGS)
    return tuple(variants() if spec == "kip320" else BUGS)


def model(spec: str, bug: str | None, constants: Iterable[str]) -> Model:
    """The machine that the words name. Raises Unusable with what there is to choose from."""
    if spec not in SPECS:
        raise Unusable(f"there is no specification {spec!r}: choose one of {', '.join(SPECS)}")
    if bug is not None and bug not in bugs_of(spec):
        raise Unusable(f"{spec} has no bug {bug!r}: choose one of {', '.join(bugs_of(spec)) or 'none'}")
    machine = SPECS[spec](bug)
    given: set[str] = set()
    for word in constants:
        machine = with_constant(machine, word)
        name = word.partition("=")[0]
        if name in given:
            raise Unusable(f"{word}: {name} is given twice; leave one out")
        given.add(name)
    return machine


def with_constant(machine: Model, word: str) -> Model:
    """`machine` with one constant, or one of its bounds, as `word` (NAME=VALUE) says."""
    name, equals, text = word.partition("=")
    known = settable(machine)
    if not equals or name not in known:
        raise Unusable(f"{word!r} is not a constant of {machine.name}: give NAME=VALUE with one of {', '.join(known)}")
    value = parsed(name, text, known[name])
    if isinstance(machine, Replication | Idempotence) and hasattr(machine.bounds, name):
        changes: dict[str, Any] = {"bounds": type(machine.bounds)(**(attrs.asdict(machine.bounds) | {name: value}))}
        return type(machine)(**(attrs.asdict(machine, recurse=False) | changes))
    changes = {name: value}
    return type(machine)(**(attrs.asdict(machine, recurse=False) | changes))


def parsed(name: str, text: str, like: int | bool) -> int | bool:
    if isinstance(like, bool):
        if text not in ("true", "false"):
            raise Unusable(f"{name}={text!r} is neither true nor false")
        return text == "true"
    if not text.isdecimal() or len(text) > 9:
        raise Unusable(f"{name}={text!r} is not a whole number between 0 and 999999999")
    return int(text)


def settable(machine: Model) -> dict[str, int | bool]:
    """Every whole number and every switch among the machine's constants and bounds, with its present value."""
    values = attrs.asdict(machine, recurse=False)
    if isinstance(machine, Replication | Idempotence):
        values |= attrs.asdict(machine.bounds)
    return {name: value for name, value in values.items() if isinstance(value, int)}
