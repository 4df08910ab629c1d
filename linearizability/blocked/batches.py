"""Batches of several records that no response places for sure: readers do, or nobody."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from tidegauge.linearizability.blocked.emit import FAILED, HELD, ODD, SUSPECTS, Pair, by_offset, by_runs, summed
from tidegauge.linearizability.blocked.parcels import Parcel, opened
from tidegauge.linearizability.blocked.values import HEAD, OPEN, SIGHTING, UNPLACED
from tidegauge.linearizability.blocked.whole import Whole


def meet_batches(whole: Whole, bucket: int, parcels: Sequence[Parcel]) -> Iterator[Pair]:
    """Place the batches of a bucket by the first who read of each; send on what is for offsets."""
    if bucket == whole.sizes.summary:
        yield from ((bucket, parcel) for parcel in parcels)
        return
    held, odd = opened(parcels, "held", HELD), opened(parcels, "odd", ODD)
    yield from by_runs(whole, 2 * bucket, "held", held)
    yield from by_offset(whole, 2 * bucket, "odd", odd, "at")
    heads, seen = opened(parcels, "head", HEAD), opened(parcels, "sighting", SIGHTING)
    order = np.argsort(heads["row"], kind="stable")
    heads = {name: column[order] for name, column in heads.items()}
    order = np.lexsort((seen["at"], seen["reader"], seen["row"]))
    seen = {name: column[order] for name, column in seen.items()}
    batch = np.searchsorted(heads["row"], seen["row"])
    first = np.searchsorted(seen["row"], heads["row"])
    placed = np.flatnonzero(first < np.searchsorted(seen["row"], heads["row"], side="right"))
    begins = np.zeros(len(heads["row"]), np.int64)
    begins[placed] = seen["begins"][first[placed]]
    wrong = (seen["begins"] != begins[batch]) | (seen["begins"] < 0)
    torn = np.zeros(len(heads["row"]), np.bool_)
    torn[batch[wrong]] = True
    yield from summed(whole, bucket, SUSPECTS, {"row": heads["row"][torn]})
    yield from summed(whole, bucket, SUSPECTS, {"row": seen["reader"][torn[batch]]})
    around = {
        "place": heads["place"][placed],
        "base": begins[placed],
        "count": heads["count"][placed],
        "number": np.zeros(len(placed), np.int64),
        "row": heads["row"][placed],
        "call": heads["call"][placed],
        "witness": seen["reader"][first[placed]],
    }
    yield from by_runs(whole, 2 * bucket + 1, "held", around)
    off = np.flatnonzero(seen["begins"] != begins[batch])
    elsewhere = {
        "place": heads["place"][batch[off]],
        "at": seen["begins"][off] + seen["number"][off],
        "writer": seen["row"][off],
        "what": seen["number"][off],
        "row": seen["reader"][off],
        "number": seen["at"][off],
    }
    yield from by_offset(whole, 2 * bucket + 1, "odd", elsewhere, "at")
    loose = np.ones(len(heads["row"]), np.bool_)
    loose[placed] = False
    loose &= heads["state"] != FAILED
    yield from summed(whole, bucket, UNPLACED, {name: heads[name][loose] for name in OPEN})
