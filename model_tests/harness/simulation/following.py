"""What the specification says of a run's trace: partition by partition, and of transaction coordinators.

In a run with transactions the internal topics are partitions like the others: the coordinators' logs come first, for
what they have lost tells what coordinators may be held to, and what coordinators have decided tells which transactions
the other partitions have aborted. What coordinators of groups decide about offsets is followed too, if their log has
lost nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import attrs

from tidegauge.impl.metadata.topic_names import CONSUMER_OFFSETS, TRANSACTION_STATE
from tidegauge.model_tests.harness.registry import HARNESS
from tidegauge.model_tests.harness.simulation.disks import WhatDisksDid
from tidegauge.model_tests.harness.simulation.options import Options
from tidegauge.model_tests.harness.simulation.recorder import TimedTrace, UncleanElection, unclean_elections
from tidegauge.model_tests.harness.simulation.recreation import LEDGER
from tidegauge.model_tests.harness.simulation.workload import TOPIC
from tidegauge.model_tests.harness.validation.coordinated import ValidatedGroups, validate_group_coordinators
from tidegauge.model_tests.harness.validation.coordinators import ValidatedCoordinators, validate_coordinators
from tidegauge.model_tests.harness.validation.followed import Settings
from tidegauge.model_tests.harness.validation.validation import Validated, partitions, validate
from tidegauge.spec.replication.state import State

Reached = Callable[[int, State], None]
Partitions = Sequence[tuple[str, int]]


@attrs.frozen(eq=False)
class FollowedTrace:
    """How far a trace is a behaviour of the specification; without partitions where nothing had to be followed."""

    validated: tuple[Validated, ...] = ()
    coordinators: ValidatedCoordinators | None = None
    groups: ValidatedGroups | None = None
    """Coordinators of groups; None where their log may have lost something, or clients have no transactions."""
    elections: tuple[UncleanElection, ...] = ()
    """Those after which something that was committed may be gone."""


def broken(
    validated: Iterable[Validated], coordinators: ValidatedCoordinators | None, groups: ValidatedGroups | None
) -> Iterator[str]:
    """Where a trace is no behaviour of the specification, in words."""
    yield from (str(one) for one in (*validated, coordinators, groups) if one is not None and not one.holds)


def follow(
    trace: TimedTrace,
    options: Options,
    disks: WhatDisksDid,
    reached: Reached | None = None,
    *,
    asked: bool = True,
    kept: bool = False,
) -> FollowedTrace:
    """Validate a trace. Where that is not `asked`, only what has to be known of unclean elections is found out.

    With `kept` the behaviours are part of the result.
    """
    if not asked and not unclean_elections(trace, {}):
        return FollowedTrace()
    settings = Settings(
        options.min_insync_replicas,
        options.unclean_leader_election,
        options.sequences,
        options.damaging,
        disks.lied,
        disks.damaged,
        slowed=disks.slowed,
        lacking=disks.lacking,
    )

    def validated(chosen: Partitions) -> Iterator[Validated]:
        for topic, partition in chosen:
            yield validate(trace, topic, partition, settings, reached, kept=kept)

    every = partitions(trace)
    if not options.transactions:
        found = tuple(validated([one for one in every if is_of_clients(*one, options)]))
        return FollowedTrace(found, elections=tuple(lossy_elections(trace, found, lossless=False)))
    of_log = [one for one in every if one[0] == TRANSACTION_STATE]
    logs = tuple(validated(of_log))
    is_lossless = not any(one.topic == TRANSACTION_STATE for one in lossy_elections(trace, logs))
    coordinators = validate_coordinators(trace, max_epoch=options.max_epoch, lossless=is_lossless)
    if is_lossless and coordinators.holds:
        settings = attrs.evolve(settings, decided=coordinators.decided)
    others = tuple(validated([one for one in every if one not in of_log and takes_part(*one, options)]))
    found = (*others, *logs)
    lossy = tuple(lossy_elections(trace, found))
    has_lost = any(one.topic == CONSUMER_OFFSETS for one in lossy)
    groups = None if has_lost else validate_group_coordinators(trace, HARNESS.followers)
    return FollowedTrace(found, coordinators, groups, lossy)


def lossy_elections(trace: TimedTrace, found: Sequence[Validated], *, lossless: bool = True) -> list[UncleanElection]:
    """The unclean elections, with what survived them; with `lossless` but for those that have cost nothing."""
    kept = {(one.topic, one.partition, epoch): end for one in found for epoch, end in one.kept.items()}
    harmless = {(one.topic, one.partition, epoch) for one in found for epoch in one.lossless}
    return unclean_elections(trace, kept, harmless if lossless else ())


def is_of_clients(topic: str, partition: int, options: Options) -> bool:
    """Whether clients write to the partition, and do so by themselves."""
    return topic.partition("/")[0] == LEDGER or (topic == TOPIC and partition < options.partitions)


def takes_part(topic: str, partition: int, options: Options) -> bool:
    """Whether clients write to the partition, or coordinators do so for them."""
    return is_of_clients(topic, partition, options) or (bool(options.transactions) and topic != TOPIC)
