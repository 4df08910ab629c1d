"""Putting a cleaned segment in the place of those that it was made from, so that a crash shows the one or the others.

Theory of operation
-------------------
The cleaner writes a segment whose files end in `.cleaned`. When it is whole and synced it is renamed to `.swap`, which
decides: from now on it replaces every segment from its base offset up to its end. Those are renamed to `.deleted`, and
the new one gets its proper name. A log that is opened drops what is `.cleaned` or `.deleted` and puts in place what is
`.swap` (`recovery.finish_replacements`); both are the same steps, and taking them twice does no harm.

A replacement ends where the last of the replaced segments ends. Segments therefore still follow each other without a
gap, by which recovery knows that no tail is missing: the cleaner keeps the last batch, without records if need be.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidegauge.impl.storage.retention import Retention
from tidegauge.impl.storage.segment import SWAP_SUFFIX, Segment


class Replacement(Retention):
    """A log whose closed segments can be replaced."""

    def replace_segments(self, replaced: Sequence[Segment], cleaned: Segment, now_ms: int) -> None:
        """Put `cleaned` in the place of successive closed segments, durably and as one step.

        `cleaned` has the base offset of the first of them, ends where the last one does, and its files carry
        `CLEANED_SUFFIX`. Raises OSError from the disk; after that the log can only be read.
        """
        self._check_not_failed()
        first = self._segments.index(replaced[0])
        end = first + len(replaced)
        assert self._segments[first:end] == list(replaced), "only successive segments can be replaced by one"
        assert self._active not in replaced, "the active segment cannot be replaced"
        assert cleaned.base_offset == replaced[0].base_offset, f"{cleaned.base_offset} != {replaced[0].base_offset}"
        assert cleaned.next_offset == replaced[-1].next_offset, f"{cleaned.next_offset} != {replaced[-1].next_offset}"
        if self._flushed_end_offset < cleaned.next_offset:
            self.flush()
        with self._failing():
            cleaned.sync(closed=True)
            cleaned.rename(SWAP_SUFFIX)
            self._disk.sync_directory(self.directory)
            self._forget(replaced, now_ms)
            cleaned.rename("")
            self._disk.sync_directory(self.directory)
            self.observer.replaced([segment.base_offset for segment in replaced[1:]])
        self._segments[first:end] = [cleaned]
        self._bases[first:end] = [cleaned.base_offset]
