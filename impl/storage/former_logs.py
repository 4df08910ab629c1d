"""Which of a replica's logs counts, where two directories of its broker have one (KIP-858).

A directory that failed keeps its logs. A replica in it may be taken from the broker meanwhile and given back; it is
then made anew in another directory. When the failed one is mended and the broker starts, there are two logs.

The rule is that of `spec/membership/placement.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID


def that_counts(known: UUID | None, found: Mapping[UUID, bool]) -> UUID | None:
    """The directory whose log is the replica's, of those in `found`, which says of each log whether it has records.

    `known` is the one that the controller knows. None where two logs have records and the controller knows neither.
    """
    if known is not None and known in found:
        return known
    with_records = [directory for directory, has_records in found.items() if has_records]
    if len(with_records) > 1:
        return None
    return next(iter(with_records or found), None)
