"""A wrong rule for the rules of administration that `test_administration` has none for."""

from __future__ import annotations

from typing import Any, Final

import attrs

from tidegauge.model_tests.spec.administration.test_administration import ALTERED, MOVED
from tidegauge.model_tests.spec.rule_mutant import RuleMutant, Wrong, always
from tidegauge.spec.administration.machine import Administration
from tidegauge.spec.administration.settings import Kind, Resource
from tidegauge.spec.administration.state import Settings, State
from tidegauge.spec.kernel.bounds import Bounds

ANEW: Final = Administration(max_partitions=1, settings=(), blocks=0, bounds=Bounds(CreateTopic=2, DeleteTopic=1))


def _as_it_was(machine: Any, right: Wrong, state: State, resource: Resource, settings: Settings) -> State:
    """A topic's settings alone change."""
    topic = state.topics[resource.number] if resource.kind is Kind.TOPIC else None
    if topic is None:
        after: State = right(state, resource, settings)
        return after
    return state.with_topic(resource.number, attrs.evolve(topic, settings=settings))


# fmt: off
MUTANTS: Final[tuple[RuleMutant, ...]] = (
    RuleMutant("needs_more_than_it_is_told", "needed", always(9), Administration(**MOVED), "EligibleBelowMinIsr"),
    RuleMutant("changes_settings_alone", "with_settings", _as_it_was, Administration(**ALTERED), "NumbersAreFenced"),
    RuleMutant("forgets_the_other_settings", "settings_of", always(()), Administration(**ALTERED), "OtherSettingsStay"),
    RuleMutant("keeps_all_who_leave_eligible", "without",
               lambda m, r, state, topic, partition, isr, elr: attrs.evolve(partition, isr=isr, elr=elr - isr),
               Administration(**MOVED), "EligibleBelowMinIsr"),
    RuleMutant("deletes_no_topic", "may_delete", always(False), ANEW, "a name is another topic's"),
)
# fmt: on
