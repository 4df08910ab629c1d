"""What of a segment's file is believed when it is read from its start.

The checksum of a batch covers neither its base offset nor its leader epoch. So one that looks whole is believed only if
the batches around it agree: it follows what came before it, the next one does not contradict it, and if what lies
before it is damaged, it is followed by another batch or by the end of the file.

The end of the file is not enough where the recovery point lies in what is damaged. The log ended there once, so a batch
began there: either this batch is that one and its base offset has grown, or more than one batch is damaged. Nor is it
enough where the recovery point lies behind this batch: either the end of the log is missing, or what is damaged before
it reaches into its base offset. Then the name of the next file tells, or nothing does, and the batch is not believed.
Where the recovery point of a clean stop is lost, the newest snapshot stands for it: with less known no more is served.

Where a cleaner has left batches out, the next one begins later. Behind damage that is no witness: its base offset may
be damaged as well. Nor is it one in the last file if the log ended in between once: no cleaner leaves out anything of
the file that is appended to, so that the files behind are lost, or the base offset has grown.
"""

from __future__ import annotations

import attrs

from tidegauge.spec.recovery.state import Batch, Rot, Segment


@attrs.frozen
class Damaged:
    """A place where a batch ought to be: it would begin at `start`; the next one that is believed begins at `end`."""

    start: int
    end: int | None
    """None: the file ends with it."""


@attrs.frozen
class Reading:
    """A file, read."""

    end: int
    """After the last batch that is believed."""
    believed: tuple[Batch, ...]
    damaged: tuple[Damaged, ...]


class Rules:
    """The rules by which a file is read; a bug overrides one of them."""

    def is_followed(self, segment: Segment, number: int, known_end: int | None) -> bool:
        """Whether the batch behind this one begins where it ends; or the file ends there, by what else is known."""
        batch = segment.batches[number]
        if number + 1 == len(segment.batches):
            return not segment.torn and known_end in (None, batch.end)
        after = segment.batches[number + 1]
        return after.is_whole and after.rot is not Rot.OFFSET and after.start == batch.end

    def is_believed(self, segment: Segment, number: int, known_end: int | None, *, is_behind_damage: bool) -> bool:
        """Whether a batch is what it says."""
        if segment.batches[number].rot is not None:
            return False
        return not is_behind_damage or self.is_followed(segment, number, known_end)

    def is_borne_out(self, segment: Segment, number: int, following: int | None) -> bool:
        """Whether something knows of the offset at which a batch ends that leaves offsets out, or is behind damage.

        The next batch does, whatever its offsets, if its checksum is right; at the end of the file the next file does.
        """
        if number + 1 < len(segment.batches):
            return segment.batches[number + 1].rot not in (Rot.CONTENT, Rot.LENGTH)
        return not segment.torn and segment.batches[number].end == following

    def read(
        self,
        segment: Segment,
        point: int = 0,
        following: int | None = None,
        known_end: int | None = None,
        rejected: int = 0,
        mark: int = 0,
    ) -> Reading:
        """All of a file, with what lies behind damage; the log once ended at `point`.

        The next file is `following`, and no batch reaches into it. `known_end` is where the file of an open log ends,
        `rejected` a recovery point that nothing else knows of, `mark` up to where a cleaner was.
        """
        end, believed, damaged = segment.base, [], []
        begun = False
        for number, batch in enumerate(segment.batches):
            is_over = (begun or following is None) and any(end < ended < batch.start for ended in (point, rejected))
            is_unsure = is_over or (begun and batch.end < max(point, mark))
            is_believed = self.is_believed(segment, number, known_end, is_behind_damage=begun)
            is_believed &= following is None or batch.end <= following
            if not is_believed or (is_unsure and not self.is_borne_out(segment, number, following)):
                begun = True
                continue
            if begun:
                damaged.append(Damaged(end, batch.start))
            begun, end = False, batch.end
            believed.append(batch)
        if begun or segment.torn:
            damaged.append(Damaged(end, None))
        return Reading(end, tuple(believed), tuple(damaged))
