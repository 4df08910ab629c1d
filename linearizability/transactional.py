"""The columns of a history that only transactions need: which transaction, which group, which last stable offset."""

from __future__ import annotations

from typing import ClassVar

import attrs
import numpy as np
import numpy.typing as npt

from tidegauge.linearizability.optional_columns import NONE as NONE
from tidegauge.linearizability.optional_columns import OptionalColumns


@attrs.frozen(eq=False)
class Transactional(OptionalColumns):
    """Three columns; a row says nothing that is in no transaction, of no group, without a last stable offset."""

    types: ClassVar = (np.int64, np.int32, np.int64)

    transaction: npt.NDArray[np.int64]
    """The number of the transaction in its history."""
    group: npt.NDArray[np.int32]
    """The number of the consumer group whose offset is committed, or whose member it is."""
    stable: npt.NDArray[np.int64]
    """The last stable offset in the response to a fetch."""
