"""Settings are changed one by one, replaced as a whole, and only checked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import ClassVar, Self

import attrs

from tidegauge.spec.administration.requests import Request
from tidegauge.spec.administration.rules import AdministrationRules
from tidegauge.spec.administration.settings import (
    LONGEST,
    MIN_INSYNC,
    POLICY,
    RETENTION,
    SESSION,
    THREADS,
    UNCLEAN,
    VALUES,
    Change,
    Kind,
    Operation,
    Resource,
    changed,
)
from tidegauge.spec.administration.state import NONE, Error, Settings, State
from tidegauge.spec.kernel.guarded import Refusal


def changes_of(setting: str) -> Iterator[tuple[Change, ...]]:
    """What is asked of a setting, and what is asked wrongly."""
    values = {
        MIN_INSYNC: ("1", "2", "0"),
        UNCLEAN: ("true", "false", "yes"),
        POLICY: ("compact", "delete", "keep", "delete,delete"),
        RETENTION: ("-1", "7", "-2"),
        THREADS: ("2", "0"),
        SESSION: ("45000", "60000", "44999"),
    }
    yield from ((Change(setting, Operation.SET, value),) for value in values[setting])
    value = values[setting][0]
    yield (Change(setting, Operation.DELETE),)
    yield (Change(setting, Operation.SET),)
    yield (Change(setting, Operation.NO_SUCH, value),)
    yield (Change(setting, Operation.SET, value), Change(setting, Operation.DELETE))
    yield (Change(setting, Operation.SET, value), Change("no.setting", Operation.SET, "1"))
    for operation in (Operation.APPEND, Operation.SUBTRACT):
        yield from ((Change(setting, operation, one),) for one in values[setting][:2])


def resources(machine: AdministrationRules) -> list[Resource]:
    """All that has settings, and a broker that is none."""
    brokers = (NONE, 0, machine.brokers)
    topics = [Resource(Kind.TOPIC, name) for name in range(machine.names)]
    return [*topics, *(Resource(Kind.BROKER, number) for number in brokers), Resource(Kind.GROUP, 0)]


@attrs.frozen
class AlterSettings(Request):
    """Operations on single settings of a resource."""

    bounded_as: ClassVar[str] = "AlterSettings"

    resource: Resource
    changes: tuple[Change, ...]

    @classmethod
    def candidates(cls, machine: AdministrationRules, state: State) -> Iterable[Self]:
        both = (Change(MIN_INSYNC, Operation.SET, "1"), Change(UNCLEAN, Operation.SET, "true"))
        for resource in resources(machine):
            for setting in machine.settings:
                for_all = resource.kind is Kind.BROKER and resource.number != NONE and setting in (MIN_INSYNC, UNCLEAN)
                may_be_set = setting in VALUES[resource.kind] and not for_all
                yield from (
                    cls(resource, changes) for changes in islice(changes_of(setting), None if may_be_set else 1)
                )
                if for_all and resource.number < machine.brokers:  # one broker cannot have it, nor have had it
                    yield cls(resource, (Change(setting, Operation.DELETE),))
            yield cls(resource, both)

    def error(self, machine: AdministrationRules, state: State) -> Error:
        if error := machine.change_error(self.resource, self.changes):
            return error
        return machine.settings_error(state, self.resource, self.settings(machine, state))

    def settings(self, machine: AdministrationRules, state: State) -> Settings:
        """What the resource would have."""
        settings = machine.settings_of(state, self.resource)
        for change in self.changes:
            settings = changed(settings, change)
        return settings

    def guard(self, machine: AdministrationRules, state: State) -> str:
        found = super().guard(machine, state)
        same = not found and self.settings(machine, state) == machine.settings_of(state, self.resource)
        return Refusal("nothing changes", Error.NONE) if same else found

    def effect(self, machine: AdministrationRules, state: State) -> State:
        after = machine.with_settings(state, self.resource, self.settings(machine, state))
        return after.after(self.bounded_as)


@attrs.frozen
class ReplaceSettings(Request):
    """A resource gets these settings, and no others; None stands for a value that is missing."""

    bounded_as: ClassVar[str] = "AlterSettings"

    resource: Resource
    values: tuple[tuple[str, str | None], ...]

    @classmethod
    def candidates(cls, machine: AdministrationRules, state: State) -> Iterable[Self]:
        chosen = [(), ((MIN_INSYNC, None),), ((MIN_INSYNC, "2"),), ((MIN_INSYNC, "1"), (UNCLEAN, "true"))]
        return [cls(resource, values) for resource in resources(machine) for values in chosen]

    def error(self, machine: AdministrationRules, state: State) -> Error:
        if any(value is None for _, value in self.values):
            return Error.INVALID_REQUEST
        return machine.settings_error(state, self.resource, self.settings)

    @property
    def settings(self) -> Settings:
        return tuple(sorted((name, value or "") for name, value in self.values))

    def guard(self, machine: AdministrationRules, state: State) -> str:
        found = super().guard(machine, state)
        same = not found and self.settings == machine.settings_of(state, self.resource)
        return Refusal("nothing changes", Error.NONE) if same else found

    def effect(self, machine: AdministrationRules, state: State) -> State:
        return machine.with_settings(state, self.resource, self.settings).after(self.bounded_as)


@attrs.frozen
class CheckSettings(Request):
    """Settings that are only checked (`validate_only`), by operations or as a whole."""

    resource: Resource
    values: tuple[tuple[str, str], ...]
    is_whole: bool

    @property
    def changes(self) -> list[Change]:
        """The operations, where they are not checked as a whole."""
        return [Change(name, Operation.SET, value) for name, value in self.values]

    @classmethod
    def candidates(cls, machine: AdministrationRules, state: State) -> Iterable[Self]:
        chosen = [((MIN_INSYNC, "2"),), ((MIN_INSYNC, "0"),)]
        lengths = [((POLICY, "delete".ljust(length)),) for length in (LONGEST, LONGEST + 1)]
        for resource in resources(machine):
            for values in chosen + (lengths if resource.kind is Kind.TOPIC else []):
                yield from (cls(resource, values, whole) for whole in (False, True))

    def error(self, machine: AdministrationRules, state: State) -> Error:
        before = () if self.is_whole else machine.settings_of(state, self.resource)
        if not self.is_whole and (error := machine.change_error(self.resource, self.changes)):
            return error
        return machine.settings_error(
            state, self.resource, tuple(sorted({**dict(before), **dict(self.values)}.items()))
        )

    def effect(self, machine: AdministrationRules, state: State) -> State:
        return state
