"""Kept mutants: rules that were wrong once, or whose change takes more than one place in the code.

Of three kinds. A *replacement* is a few words of a function in place of others, and goes through every ring. A
*refusal* that is removed, and a *bug* of the zoo, are classes that play a part of the cores, and go through lockstep.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from types import CodeType
from typing import Final, NamedTuple

import attrs

from tidegauge.model_tests.harness.cores.replication import Roles
from tidegauge.model_tests.harness.registry import HARNESS
from tidegauge.model_tests.lockstep.refusal_mutants import MUTANTS
from tidegauge.model_tests.mutants.operators import Function, compiled
from tidegauge.model_tests.mutants.patching import ROOT, source_module


class Replacement(NamedTuple):
    """Words of one function, which it has once, in place of others."""

    name: str
    file: str
    function: str
    old: str
    new: str


REPLACEMENTS: Final = (
    Replacement(
        "the high watermark waits for the committed ISR only",
        "impl/partition/high_watermark.py",
        "HighWatermark.next_high_watermark",
        "self.maximal_isr",
        "self.isr",
    ),
    Replacement(
        "a follower believes its leader's high watermark",
        "impl/partition/high_watermark.py",
        "HighWatermark.follow_high_watermark",
        "min(leader_high_watermark, self.log_end_offset)",
        "leader_high_watermark",
    ),
    Replacement(
        "a proposal names no process",
        "impl/partition/isr.py",
        "InSyncReplicas.isr_with_broker_epochs",
        "self.remote_replicas[member].broker_epoch",
        "-1",
    ),
    Replacement(
        "sessions never expire",
        "impl/controller/membership.py",
        "Membership.heartbeat",
        "now_ms + self._config.broker_session_timeout_ms",
        "now_ms + (1 << 40)",
    ),
    Replacement(
        "the ELR is elected before the ISR",
        "impl/controller/elections.py",
        "ElectionRules.elect",
        "(registration.isr, registration.elr)",
        "(registration.elr, registration.isr)",
    ),
    Replacement(
        "an unclean leader keeps the ELR",
        "impl/controller/elections.py",
        "ElectionRules.with_leader",
        "frozenset[int]() if was_unclean else self.elr_after",
        "self.elr_after",
    ),
    Replacement(
        "what was not flushed counts as flushed",
        "impl/storage/recovery.py",
        "_Recovering._know_flushed",
        "_ENDLESS if known.clean_shutdown and not point else self._known_flushed",
        "_ENDLESS",
    ),
    Replacement(
        "a topic that is being reassigned is not deleted",
        "impl/controller/topics.py",
        "Topics.delete",
        "topic is None",
        "topic is None or any(one.is_reassigned for one in topic.partitions.values())",
    ),
    Replacement(
        "a topic that nobody leads is not deleted",
        "impl/controller/topics.py",
        "Topics.delete",
        "topic is None",
        "topic is None or any(one.leader < 0 for one in topic.partitions.values())",
    ),
    Replacement(
        "a tombstone leaves what is pending",
        "impl/coordinators/groups/offsets.py",
        "GroupOffsets._remove",
        "list(self._open.get(key.group, {}).get((key.topic, key.partition), ()))",
        "()",
    ),
    Replacement(
        "an offset counts before its transaction is committed",
        "impl/coordinators/groups/offsets.py",
        "GroupOffsets._replay_offset",
        "producer_id == NO_PRODUCER_ID",
        "True",
    ),
    Replacement(
        "of two offsets the one counts whose marker comes last",
        "impl/coordinators/groups/offsets.py",
        "GroupOffsets._end_transaction",
        "known.log_offset < offset.log_offset",
        "True",
    ),
    Replacement(
        "an offset is told though another one is pending",
        "impl/coordinators/groups/offsets.py",
        "GroupOffsets.is_unstable",
        "(key.topic, key.partition) in self._open.get(key.group, ())",
        "False",
    ),
    Replacement(
        "the cleaner keeps records of aborted transactions",
        "impl/storage/cleaner_transactions.py",
        "CleanedTransactions.on_batch",
        "self._aborted.get(header.producer_id)",
        "None",
    ),
    Replacement(
        "the cleaner removes a marker that records need",
        "impl/storage/cleaner_transactions.py",
        "CleanedTransactions.on_marker",
        "return not met",
        "return True",
    ),
    Replacement(
        "the cleaner gives tombstones no time",
        "impl/storage/cleaner_filter.py",
        "RetentionRules.clean",
        "horizon is not None and horizon <= self.now_ms",
        "True",
    ),
    Replacement(
        "markers compete with the records of users' keys",
        "impl/storage/cleaner_filter.py",
        "RetentionRules.keeps_marker",
        "return True",
        "return self.is_kept(record, due=False)",
    ),
    Replacement(
        "epochs of a segment that is read are kept",
        "impl/storage/recovery.py",
        "_Recovering._recover",
        "self._epochs.truncate_from_end(segment.base_offset)",
        "self._epochs.truncate_from_end(1 << 62)",
    ),
)


@attrs.frozen(eq=False)
class Replaced:
    """A mutant that a replacement makes."""

    name: str
    function: Function
    replacement: Replacement

    @property
    def lines(self) -> range:
        """The lines of its function."""
        return self.function.lines

    def code(self) -> CodeType:
        """The code of the function with the other words. Raises LookupError if they are not there once."""
        module, words = self.function.module, self.replacement
        source = (ROOT / module.path).read_text("utf-8")
        node = self.function.node
        lines = source.splitlines(keepends=True)
        first, end = node.lineno - 1, node.end_lineno
        body = "".join(lines[first:end])
        if body.count(words.old) != 1:
            raise LookupError(
                f"{words.name}: {words.function} has {words.old!r} {body.count(words.old)} times, not once"
            )
        changed = "".join([*lines[:first], body.replace(words.old, words.new), *lines[end:]])
        tree = ast.parse(changed, module.path)
        functions = attrs.evolve(module, tree=tree).functions()
        return compiled(next(one for one in functions if one.qualname == words.function))


def replaced(files: tuple[str, ...]) -> Iterator[Replaced]:
    """The replacements in these files."""
    for one in REPLACEMENTS:
        if one.file in files:
            found = [function for function in source_module(one.file).functions() if function.qualname == one.function]
            if not found:
                raise LookupError(f"{one.name}: {one.file} has no {one.function}")
            yield Replaced(f"{one.file} {one.function}: {one.name}", found[0], one)


@attrs.frozen(eq=False)
class Played:
    """A mutant that is a class which plays a part of the cores."""

    name: str
    machine: str
    """The machine that drives it."""
    roles: Roles


def played() -> Iterator[Played]:
    """Every removed refusal, and every bug of the zoo."""
    for name, (machine, roles) in MUTANTS.items():
        yield Played(f"refusal removed: {name}", machine, roles)
    for registration in HARNESS:
        for bug in registration.bugs:
            yield Played(f"bug: {bug.name}", registration.machine, bug.roles)
