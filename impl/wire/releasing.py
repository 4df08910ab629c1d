"""Messages of many elements are freed in slices: to free 100,000 elements at once takes milliseconds.

Arrays are emptied from their ends. An element that has arrays itself gives them up before it goes. This serves for what
nobody else refers to.
"""

from __future__ import annotations

from typing import Any, Final

from tidegauge.impl.records.slices import Sliced
from tidegauge.impl.wire.budget import STEP
from tidegauge.impl.wire.message_classes import arrays_of

MANY: Final = 16 * STEP
"""Elements without arrays that are freed at once."""
MANY_UNITS: Final = 80
"""Units that it takes to free them."""


def releasing(*messages: Any) -> Sliced[None]:
    """Free messages in slices. The caller keeps no reference to them."""
    piles = [[message] for message in messages]
    del messages
    due = 0
    while piles:
        if not (pile := piles[-1]):
            piles.pop()
        elif not (names := arrays_of(pile[-1].__class__)):
            del pile[-MANY:]
            yield MANY_UNITS
        else:
            arrays = [array for name in names if (array := getattr(pile[-1], name))]
            pile.pop()
            due += 1
            while arrays:
                array = arrays.pop()
                if len(array) > STEP or arrays_of(array[0].__class__):
                    piles.append(array if type(array) is list else list(array))
                else:
                    due += len(array)
                del array
            if due >= STEP:
                yield due
                due = 0
