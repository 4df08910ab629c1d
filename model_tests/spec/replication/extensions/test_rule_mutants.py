"""Every rule of replication's extensions matters: each has a wrong one that is noticed, or a reason why it has none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from types import FunctionType
from typing import Any, Final

import pytest

from tidegauge.model_tests.spec.replication import test_convergence
from tidegauge.model_tests.spec.replication.extensions.rule_mutants import MUTANTS, ExtensionMutant, is_wrapping
from tidegauge.model_tests.spec.replication.extensions.test_damage import RepairsTheEligible
from tidegauge.model_tests.spec.replication.extensions.test_left_out import LEFT_OUT
from tidegauge.model_tests.spec.replication.test_rule_mutants import is_verified
from tidegauge.model_tests.spec.teeth import WRONG
from tidegauge.spec.kernel.explorer import Limits, explore
from tidegauge.spec.kernel.extension import Extension
from tidegauge.spec.registry import REGISTRY
from tidegauge.spec.replication.extension import ReplicationExtension
from tidegauge.spec.replication.machine import Replication

Rule = tuple[str, str]
"""A class of extension, and a rule of its own or one that it wraps."""

NOT_MUTATED: Final[Mapping[Rule, str]] = {
    ("ControlledShutdown", "registered"): (
        "who crashes keeps no note, who stops writes another: nobody reads the note of a process that is registered"
    ),
    ("ControlledShutdown", "is_last_process"): (
        "no note is an earlier process's but of a broker that was removed, and that one is neither in sync nor eligible"
    ),
    ("Directories", "on_disk"): (
        "what a failed directory has kept counts for nobody: the next process is out of ISR and ELR, and deletes it"
    ),
    ("Reassignment", "in_sync_at_first"): "a constant of the model: where a behaviour begins",
    ("Reassignment", "target_lists"): "a constant of the model: what may be asked for",
    ("Reassignment", "has_lost_since"): "an invariant asks it, no action: a wrong one hides or invents a violation",
}
"""Why a rule has no wrong one."""
UNVERIFIED: Final = frozenset(
    {
        "asks_who_leaves_alone",
        "believes_every_heartbeat",
        "commits_by_the_first_number",
        "counts_brokers_for_replicas",
        "drops_its_note_and_goes_on",
        "elects_by_the_first_setting",
        "elects_who_stays_lost",
        "finds_who_joins_and_lets_nobody",
        "goes_on_with_its_log",
        "goes_on_withdrawn",
        "goes_on_without_damage",
        "has_its_directory_and_no_process",
        "is_filled_by_nobody",
        "lets_in_who_has_not_said_it",
        "notes_a_stop_before_it_writes",
        "refuses_the_last_who_leaves",
        "serves_the_first_of_the_list",
        "stops_without_its_log_start",
        "takes_every_proposal",
        "takes_every_proposal_of_who_is_registered",
        "takes_the_former_log_for_its_own",
    }
)
"""Mutants whose model is no part of one that every verification explores: a small change of such a one."""
LARGE: Final = 1_400
"""States of a search that takes half a second."""


def noticed(machine: Replication, states: int) -> set[str]:
    """What a search finds wrong: properties that are false, and goals of the search that it has not reached."""
    found = explore(machine, converges=True, limits=Limits(states=states))
    lassos = () if found.convergence is None else found.convergence.lassos
    unreached = found.unreached if found.complete else ()
    return {*(one.invariant for one in found.violations), *(lasso.goal for lasso in lassos), *unreached}


@cache
def reached(model: Replication, states: int) -> set[str]:
    """What a search with the right rules reaches."""
    return set(explore(model, limits=Limits(states=states)).reached)


def wrong_in(kind: type[Any]) -> Iterator[Rule]:
    """The rules of extensions that a class has otherwise."""
    for name in vars(kind):
        owner = next((one for one in kind.__mro__[1:] if name in vars(one)), None)
        if owner is not None and issubclass(owner, Extension):
            yield owner.__name__, name


def wrong_kinds() -> Iterator[type[Any]]:
    """Classes with a wrong rule: of the zoo, of `teeth`, of goals, and of a test."""
    yield RepairsTheEligible
    for one in REGISTRY:
        yield from (bug.buggy for bug in one.bugs)
    machines = [machine for _, machine, _ in WRONG] + [machine for machine, _ in test_convergence.WRONG]
    for machine in machines:
        yield from map(type, getattr(machine, "extensions", ()))


def rules_of(kind: type[ReplicationExtension]) -> Iterator[Rule]:
    """What an extension wraps, and what it decides by itself; what it contributes to is no rule."""
    for name, method in vars(kind).items():
        if isinstance(method, FunctionType) and not name.startswith("_"):
            declared = getattr(ReplicationExtension, name, None)
            if declared is None or is_wrapping(method):
                yield kind.__name__, name


def rules() -> set[Rule]:
    """The rules of all extensions of the registry."""
    machines = [one.machine for one in REGISTRY] + [model.machine for one in REGISTRY for model in one.models]
    kinds = {type(extension) for machine in machines for extension in getattr(machine, "extensions", ())}
    return {rule for kind in kinds for rule in rules_of(kind)}


@pytest.mark.parametrize(
    "mutant",
    [
        pytest.param(
            mutant, id=f"{mutant.extension.__name__}-{mutant.name}", marks=[pytest.mark.deep] * (mutant.states > LARGE)
        )
        for mutant in MUTANTS
    ],
)
def test_a_wrong_rule_of_an_extension_is_noticed(mutant: ExtensionMutant) -> None:
    assert mutant.shown in noticed(mutant.machine, mutant.states)
    if mutant.shown in mutant.model.sometimes:
        assert mutant.shown in reached(mutant.model, mutant.states), "with the right rules it is"


@pytest.mark.parametrize("model", list(dict.fromkeys(mutant.model for mutant in MUTANTS)))
@pytest.mark.deep
def test_the_right_rules_violate_nothing_in_that_model(model: Replication) -> None:
    assert explore(model, converges=True).holds


def test_every_rule_of_an_extension_has_a_wrong_one_or_a_reason() -> None:
    mutated = {(mutant.extension.__name__, mutant.rule) for mutant in MUTANTS}
    mutated |= {(kind.__name__, rule) for kind, rule, *_ in LEFT_OUT}
    assert not mutated & NOT_MUTATED.keys()
    elsewhere = {rule for kind in wrong_kinds() for rule in wrong_in(kind)}
    assert rules() - mutated - elsewhere == NOT_MUTATED.keys(), "name a wrong rule in `rule_mutants`"


def test_so_many_wrong_rules_are_noticed_by_every_verification() -> None:
    assert {mutant.name for mutant in MUTANTS if not is_verified(mutant.model)} == UNVERIFIED
