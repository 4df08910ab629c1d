"""The columns of a history that only members of groups need: which generation, which member, which commit was found."""

from __future__ import annotations

from typing import ClassVar

import attrs
import numpy as np
import numpy.typing as npt

from tidegauge.linearizability.optional_columns import NONE as NONE
from tidegauge.linearizability.optional_columns import OptionalColumns


@attrs.frozen(eq=False)
class Membership(OptionalColumns):
    """Three columns; a row says nothing that is of no generation, of no member but its process, or found nothing."""

    types: ClassVar = (np.int32, np.int32, np.int32)

    generation: npt.NDArray[np.int32]
    """The group's generation, or its epoch, as the member was told."""
    member: npt.NDArray[np.int32]
    """The number of the member whose process it is, which has more than one where the member is static."""
    found: npt.NDArray[np.int32]
    """The index of the commit that a read of the committed offset has found."""
