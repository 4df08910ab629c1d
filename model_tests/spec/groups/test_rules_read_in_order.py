"""Rules of groups that ask last what is seldom needed say what they would say if they asked everything first."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain, product
from typing import Any

import attrs
import pytest

from tidegauge.spec.groups.classic import properties as classic
from tidegauge.spec.groups.classic.coordinating import BEATING, is_present
from tidegauge.spec.groups.classic.state import ENDED, Joined, Status
from tidegauge.spec.groups.classic.state import CommitRequest as ClassicCommit
from tidegauge.spec.groups.classic.state import Phase as ClassicPhase
from tidegauge.spec.groups.consumer import properties as consumer
from tidegauge.spec.groups.consumer.classic_group import Stage
from tidegauge.spec.groups.consumer.state import JOINING_EPOCH, NONE, CommitRequest, Phase
from tidegauge.spec.groups.migration import properties as migration
from tidegauge.spec.groups.migration.properties import members_of
from tidegauge.spec.kernel.bounds import times
from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.machine import Action
from tidegauge.spec.kernel.walking import random_of_walk
from tidegauge.spec.registry import REGISTRY

CLASSIC = ("groups-three", "groups-static", "groups-leaving", "groups-coordinator")
CONSUMERS = ("consumers-three", "consumers-leaving", "consumers-coordinator")
MIGRATIONS = ("migration-static", "migration-three", "migration-zombie", "migration-coordinator")
WALKS, LENGTH = 8, 40


def steps(name: str) -> Iterator[tuple[Any, Any, Action, Any]]:
    """Steps of random walks, each with its machine."""
    machine: Any = REGISTRY.machine(name)
    for number in range(WALKS):
        rng, state = random_of_walk(0, number), next(iter(machine.initial()))
        for _ in range(LENGTH):
            after = [*machine.successors(state)]
            if not after:
                break
            action, reached = rng.choice(after)
            yield machine, state, action, reached
            state = reached


def owning_all(state: Any) -> Any:
    """The state if each process owned the first partition: no machine reaches most of these."""
    return evolve(state, processes=tuple(evolve(process, owned=(0,)) for process in state.processes))


@pytest.mark.parametrize("name", CLASSIC)
def test_who_is_present_goes_on_under_the_member_id(name: str) -> None:
    found = set()
    for _, _, _, state in steps(name):
        for member_id in range(-1, state.member_ids + 1):
            member = state.group.member(member_id) if state.group is not None else None
            for hung in (False, True):
                goes_on = [
                    process.phase not in ENDED and (not process.hung or (hung and process.phase in BEATING))
                    for number, process in enumerate(state.processes)
                    if process.member_id == member_id
                    or (member is not None and member.connection == number)
                    or (isinstance(process.response, Joined) and process.response.member_id == member_id)
                ]
                assert is_present(state, member_id, hung=hung) == any(goes_on)
                found.add(any(goes_on))
    assert found == {False, True}


@pytest.mark.parametrize("name", CLASSIC)
def test_a_group_waits_for_a_late_member_as_long_as_it_has_a_time_for_that(name: str) -> None:
    found = set()
    for machine, _, _, state in steps(name):
        if state.group is None:
            continue
        for status, timeout in product(Status, (False, True)):
            group, timed = evolve(state.group, status=status), attrs.evolve(machine, sync_timeout=timeout)
            is_late = any(member.unsynced for member in group.members)
            holds = timeout and is_late and status in (Status.COMPLETING_REBALANCE, Status.STABLE)
            assert timed.may_expire_sync(group) == holds
            found.add((holds, is_late, timeout))
    assert {(True, True, True), (False, True, True), (False, False, True), (False, True, False)} <= found


Taken = Callable[[Any, Any, int, int], bool]
"""Whether the commit of a process of a state would be taken of a partition."""


def commits_of_one(name: str, rule: Callable[[Any], Callable[[Any], bool]], is_taken: Taken) -> set[bool]:
    """Hold a rule against one that asks of each process, and of each partition that it owns; what was found."""
    found = set()
    for machine, _, _, reached in steps(name):
        for state in (reached, owning_all(reached)):
            owners = [
                partition
                for number, process in enumerate(state.processes)
                for partition in process.owned
                if state.group is not None and is_taken(machine, state, number, partition)
            ]
            holds = len(owners) == len({*owners})
            assert rule(machine)(state) == holds
            found.add(holds)
    return found


@pytest.mark.parametrize("name", CLASSIC)
def test_a_classic_group_has_one_committer_of_each_partition(name: str) -> None:
    def is_taken(machine: Any, state: Any, number: int, partition: int) -> bool:
        process = state.processes[number]
        request = ClassicCommit(number, process.member_id, process.generation, partition, 0)
        refusal = machine.commit_error(state.group, machine.instance_of(number), request)
        return machine.may_commit(process) and not refusal

    assert commits_of_one(name, classic.one_committer, is_taken) == {False, True}


@pytest.mark.parametrize("name", CONSUMERS + MIGRATIONS)
def test_a_consumer_group_has_one_committer_of_each_partition(name: str) -> None:
    def is_taken(machine: Any, state: Any, number: int, partition: int) -> bool:
        process = state.processes[number]
        request = CommitRequest(number, process.member_id, process.epoch, partition, 0)
        return not machine.committing_error(state, request)

    assert True in commits_of_one(name, consumer.one_committer, is_taken)


def with_each(state: Any, **changes: Any) -> Iterator[Any]:
    """The state as often as it has processes: one of them is changed so in each."""
    for number, process in enumerate(state.processes):
        others = state.processes[:number], state.processes[number + 1 :]
        yield evolve(state, processes=(*others[0], evolve(process, **changes), *others[1]))


def only_replaced_and_refused(machine: Any, state: Any) -> bool:
    """Whether each process that was fenced was replaced, and each that was refused has no protocol of all others."""
    is_mistaken = times(state.spent, "FailOver") or times(state.spent, "DelayJoin")
    instances = [machine.instance_of(number) for number in range(machine.processes)]
    for number, process in enumerate(state.processes):
        is_only = instances.count(instances[number]) < 2 and not is_mistaken
        if process.phase is ClassicPhase.FENCED and (instances[number] == NONE or is_only):
            return False
        known = set(machine.protocols_of(number))
        has_common = all(known & set(machine.protocols_of(other)) for other in range(machine.processes))
        if process.phase is ClassicPhase.REFUSED and has_common and not times(state.spent, "FailOver"):
            return False
    return True


@pytest.mark.parametrize("name", CLASSIC)
def test_only_the_replaced_are_fenced_and_only_odd_ones_refused(name: str) -> None:
    found = set()
    for machine, _, _, reached in steps(name):
        altered = (with_each(reached, phase=phase) for phase in (ClassicPhase.FENCED, ClassicPhase.REFUSED))
        for state in (reached, *chain.from_iterable(altered)):
            holds = only_replaced_and_refused(machine, state)
            assert classic.only_the_replaced_are_fenced(machine)(state) == holds
            found.add(holds)
    assert found == {False, True}


def no_process_is_ahead(state: Any) -> bool:
    if state.group is None or state.classic is not None:
        return True
    for process in state.processes:
        member = state.group.member(process.member_id)
        is_sure = not process.classic or process.stage is Stage.IN
        if is_sure and member is not None and process.epoch > member.epoch:
            return False
    return True


@pytest.mark.parametrize("name", MIGRATIONS)
def test_told_epochs_are_those_of_the_members(name: str) -> None:
    found = set()
    for machine, _, _, reached in steps(name):
        told = migration.invariants(machine)["ToldEpochsAreTheMembers"]
        epochs = {process.epoch + 1 for process in reached.processes}
        for state in (reached, *chain.from_iterable(with_each(reached, epoch=epoch) for epoch in epochs)):
            holds = no_process_is_ahead(state)
            assert told(state) == holds
            found.add(holds)
    assert found == {False, True}


@pytest.mark.parametrize("name", CONSUMERS)
def test_owning_is_having_in_the_epoch_of_the_member(name: str) -> None:
    found = set()
    for _, _, _, reached in steps(name):
        for state in (reached, owning_all(reached)):
            for number, process in enumerate(state.processes):
                member = state.group.member(process.member_id) if state.group is not None else None
                holds = (
                    times(state.spent, "DelayHeartbeat") > 0
                    or member is None
                    or process.phase is not Phase.UP
                    or process.epoch != member.epoch
                    or {*process.owned} <= {*member.held}
                )
                assert consumer.owning_is_having(number, state) == holds
                found.add(holds)
    assert found == {False, True}


@pytest.mark.parametrize("name", MIGRATIONS)
def test_static_members_with_other_ids_are_replaced(name: str) -> None:
    found = 0
    for _, before, _, after in steps(name):
        if before.group is None or after.group is None:
            continue
        former = {one.instance: one for one in members_of(before) if one.instance != NONE}
        now = [(former[one.instance], one) for one in members_of(after) if one.instance in former]
        replaced = [(old, new) for old, new in now if old.member_id != new.member_id]
        assert [*migration.replacements(before, after)] == replaced
        found += len(replaced)
    assert found or not name.startswith("migration-static")


def replaced_and_out(machine: Any, before: Any, after: Any) -> bool:
    """Whether a process has lost its membership to another one and goes on as if it had not."""
    has = {one.instance: one.member_id for one in members_of(before) if one.instance != NONE}
    return any(
        old.works and new.works and old.epoch > JOINING_EPOCH and new.epoch == JOINING_EPOCH
        and has.get(machine.instance_of(number), old.member_id) != old.member_id
        for number, (old, new) in enumerate(zip(before.processes, after.processes, strict=True))
    )  # fmt: skip


@pytest.mark.parametrize("name", MIGRATIONS)
def test_the_replaced_end_and_take_nothing_back(name: str) -> None:
    found, is_static = set(), False
    for machine, before, action, after in steps(name):
        if before.group is None:
            continue
        is_static = is_static or machine.instance_of(0) != NONE
        rule, pairs = migration.the_replaced_end(machine), [(before, after)]
        for number, process in enumerate(before.processes):
            for member_id in (process.member_id, process.member_id + 1):
                old = evolve(process, member_id=member_id)
                new = evolve(old, epoch=JOINING_EPOCH)
                first, then = ((*before.processes[:number], one, *before.processes[number + 1 :]) for one in (old, new))
                pairs.append((evolve(before, processes=first), evolve(after, processes=then)))
        for one, other in pairs:
            holds = not replaced_and_out(machine, one, other)
            assert rule(one, action, other) == holds
            found.add(holds)
    assert found == ({False, True} if is_static else {True})
