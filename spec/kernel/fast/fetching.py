"""Where memory is limited: what the next steps lead to comes back into the table, before they are taken."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tidegauge.spec.kernel.fast import kernel, run_tables

__all__ = ["fetched"]


def fetched(search: Any, start: int, end: int) -> int:
    """Have in the table whatever steps lead to out of the states from `start` up to the one that is returned."""
    table = search.table
    if not table.is_narrow(search.count):
        return end
    wanted = _unseen(search, start, end)
    while not table.has_room(search.count, len(wanted)):
        if not table.shrink(search.count):
            if end - start == 1:
                table.make_room(search.count, 2 * len(wanted))
                break
            end = start + (end - start) // 2
        wanted = _unseen(search, start, end)
    table.fetch(wanted)
    return end


def _unseen(search: Any, start: int, end: int) -> npt.NDArray[np.uint64]:
    """The hashes of what steps lead to that the table does not have, in order."""
    tries, met = search.tries, 0
    found: npt.NDArray[np.uint64] = np.zeros(1 << 12, np.uint64)
    compiled: Any = run_tables.unseen  # numba has its types from the calls
    while start < end:
        tries.make_room(2 * len(search.misses))
        search.repack()
        how, start, met, asked, tries.used = compiled(
            start, end, search.bases, tries.roots, tries.nodes, tries.keys, tries.codes, tries.used,
            tries.leaf_start, tries.leaf_items, search.rows, search.packing.places, search.table.slots, search.count,
            search.chosen, search.misses, search.layout.questions.words, search.layout.questions.table,
            *search.recent_paths(), found, met, *search.renamed_words(),
        )  # fmt: skip
        search.ask_all(search.misses, asked)
        if how == kernel.NARROW:
            search.widen()
        elif how == kernel.ROOM:
            found = np.concatenate([found, np.zeros_like(found)])
    return np.unique(found[:met])
