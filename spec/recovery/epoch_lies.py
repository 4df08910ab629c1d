"""A file of leader epochs that is one, but not of this log: the batches at which epochs are to begin contradict it."""

from __future__ import annotations

from enum import Enum
from typing import ClassVar

import attrs

from tidegauge.spec.kernel.machine import Action
from tidegauge.spec.recovery.state import State


class Lie(Enum):
    """What the file of leader epochs says instead."""

    BEYOND = "another epoch begins behind the end"
    LARGER = "another epoch begins with the last batch"
    SMALLER = "the first epoch is the one before"


@attrs.frozen
class SpoilEpochs(Action):
    """The file of leader epochs is a list of epochs, but not this log's."""

    fair: ClassVar[bool] = False

    lie: Lie


def lie_guard(state: State, lie: Lie) -> str:
    """The file has to be the log's, as a clean stop leaves it, and the log without damage; "" where nothing is."""
    if not (state.is_clean and state.is_sound) or state.has_begun or state.noted < 0:
        return "it is not known what the file has"
    batches = [batch for segment in state.segments for batch in segment.batches]
    is_last_there = bool(batches) and all(end <= batches[-1].end for _, end in state.left_out)
    is_noted = any(segment.base <= state.noted for segment in state.segments[:1])
    told = {
        Lie.BEYOND: True,
        Lie.LARGER: len(batches) > 1 and batches[-2].epoch == batches[-1].epoch and is_last_there,
        Lie.SMALLER: is_noted and any(batch.start <= state.noted < batch.end and batch.epoch > 0 for batch in batches),
    }[lie]
    return "" if told else "the log has no batch that contradicts it"
