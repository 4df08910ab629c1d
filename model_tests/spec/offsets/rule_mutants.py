"""A wrong rule for the rules of offsets that `test_offsets` has none for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import attrs

from tidegauge.model_tests.spec.rule_mutant import RuleMutant, Wrong, always
from tidegauge.spec.offsets.machine import Offsets
from tidegauge.spec.offsets.state import Entry, Error, Kind, Store

SMALL: Final = Offsets(producers=1, max_entries=3, max_failures=0, max_time=0)
TIMED: Final = attrs.evolve(SMALL, max_entries=2, max_time=1)
ASKED: Final = attrs.evolve(TIMED, asked=(2,), max_time=2, is_old_format=True)
LEFT: Final = attrs.evolve(TIMED, max_rebalances=1, max_time=2)
TAKEN: Final = "a tombstone is gone, and the marker of what it took is left"


def _anew(machine: Any, right: Wrong, store: Store, entries: Iterable[Entry]) -> Store:
    """Each round of entries begins with nothing."""
    after: Store = right(Store(), entries)
    return after


# fmt: off
MUTANTS: Final[tuple[RuleMutant, ...]] = (
    RuleMutant("replays_to_an_empty_store", "replayed", _anew, SMALL, "LoadedIsKept"),
    RuleMutant("commits_what_is_aborted", "after_marker",
               lambda m, r, store, marker: r(store, attrs.evolve(marker, kind=Kind.COMMIT)), SMALL, "NewestCounts"),
    RuleMutant("takes_no_commit", "commit_error", always(Error.UNKNOWN_MEMBER_ID), TIMED, "an offset expires"),
    RuleMutant("knows_no_group", "is_there", always(False), SMALL, TAKEN),
    RuleMutant("deletes_nothing", "deletion_error", always(Error.GROUP_ID_NOT_FOUND), SMALL, TAKEN),
    RuleMutant("expires_a_tick_too_soon", "expires",
               lambda m, r, state: r(attrs.evolve(state, now=state.now + 1)), TIMED, "OnlyOldExpires"),
    RuleMutant("stores_no_expiry", "stored", lambda m, r, entry: r(attrs.evolve(entry, expires_at=None)),
               ASKED, "LoadedIsKept"),
    RuleMutant("goes_by_the_setting_alone", "is_over",
               lambda m, r, committed, *times: r(attrs.evolve(committed, expires_at=None), *times),
               ASKED, "OnlyOldExpires"),
    RuleMutant("forgets_when_the_group_became_empty", "counts_from",
               lambda m, r, state, committed: committed.time, LEFT, "OnlyOldExpires"),
    RuleMutant("goes_by_the_group_alone", "counts_from",
               lambda m, r, state, committed: committed.time if state.empty_since < 0 else state.empty_since,
               LEFT, "OnlyOldExpires"),
    RuleMutant("cleans_everything_away", "cleaned",
               lambda m, r, state, end: tuple(entry for entry in state.log if entry.place >= end),
               TIMED, "LoadedIsKept"),
)
# fmt: on
