"""The compiled part of states as they are kept: packed into lanes, hashed, and renamed where a machine is symmetric.

`places` says where each word of a row lies in its lanes (`tidegauge.spec.kernel.fast.packing`). Where there are no
renamings a state is only ever looked at as it is packed. Where there are, it is a row of words as well, with its
*images*, one for each renaming (`tidegauge.spec.kernel.fast.renaming`), which follow each step word by word.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from tidegauge.compilation.kept_code import compiled_and_kept
from tidegauge.spec.kernel.fast.trie_tables import INLINED, UNCOUNTED, mixed

_LANE: Final = np.uint64(0x9E3779B97F4A7C15)
"""What sets a lane apart from another one that holds the same."""


@compiled_and_kept(**UNCOUNTED)
def value_of(word, kept, places):
    """The number of a word's value in a packed state."""
    return (kept[places[0, word]] >> places[1, word]) & places[2, word]


@compiled_and_kept(**UNCOUNTED)
def unpacked(kept, places, row):
    """Take a state that is kept apart, into `row`."""
    for word in range(len(row)):
        row[word] = value_of(word, kept, places)


@compiled_and_kept()
def unpacked_all(rows, numbers, places, found):
    """Take the states of these numbers into the rows of `found`."""
    for place in range(len(numbers)):
        unpacked(rows[numbers[place]], places, found[place])


@compiled_and_kept(**UNCOUNTED)
def pack(row, places, kept):
    """Put a row into `kept`."""
    for lane in range(len(kept)):
        kept[lane] = 0
    for word in range(len(row)):
        kept[places[0, word]] |= np.uint64(row[word]) << places[1, word]


@compiled_and_kept(nogil=True)
def repacked(rows, places, first, end, other_rows, other_places):
    """Pack the states from `first` to `end` in another way."""
    row = np.zeros(places.shape[1], np.uint32)
    for number in range(first, end):
        unpacked(rows[number], places, row)
        pack(row, other_places, other_rows[number])


@compiled_and_kept(**UNCOUNTED)
def is_kept(row, kept, places):
    """Whether a row is the state that is kept there."""
    for word in range(len(row)):  # noqa: SIM110 - numba compiles loops
        if row[word] != value_of(word, kept, places):
            return False
    return True


@compiled_and_kept(**UNCOUNTED)
def is_same(row, other):
    for word in range(len(row)):  # noqa: SIM110 - numba compiles loops
        if row[word] != other[word]:
            return False
    return True


@compiled_and_kept(**INLINED)
def hashed(kept):
    """The hash of a packed state, where there are no renamings: a few lanes are mixed faster than many words."""
    hash_ = np.uint64(0)
    for lane in range(len(kept)):
        hash_ ^= mixed(kept[lane] + np.uint64(lane + 1) * _LANE)
    return hash_


@compiled_and_kept(**UNCOUNTED)
def _part(word, value):
    """What a word adds to the hash of a row: nothing with number 0, so that it has the same hash with more words."""
    if value == 0:
        return np.uint64(0)
    return mixed((np.uint64(word + 1) << np.uint64(40)) ^ np.uint64(value))


@compiled_and_kept(**UNCOUNTED)
def hashed_row(row):
    """The hash of a row, by its words: so that of an image can follow a step that changes few of them."""
    hash_ = np.uint64(0)
    for word in range(len(row)):
        hash_ ^= _part(word, row[word])
    return hash_


@compiled_and_kept(**UNCOUNTED)
def _image(row, place, targets, starts, image_of, image):
    """Make `image`, the renamed initial state, the renamed row."""
    for word in range(len(row)):
        target = targets[place, word]
        if target >= 0:
            image[target] = image_of[place, starts[word] + row[word]]


@compiled_and_kept(**UNCOUNTED)
def orbit(row, own, initials, targets, starts, image_of, images, hashes):
    """Rename a row in all ways, into `images`, with their hashes: the least of them and the row's own."""
    least = own
    for place in range(len(initials)):
        for word in range(len(row)):
            images[place, word] = initials[place, word]
        _image(row, place, targets, starts, image_of, images[place])
        hashes[place] = hashed_row(images[place])
        least = min(least, hashes[place])
    return least


@compiled_and_kept(**UNCOUNTED)
def renamed_all(kept, places, origin, row, initials, targets, starts, image_of, images, hashes):
    """Take a packed state apart, into `origin` and `row`, and rename it in all ways, into `images`; the row's hash."""
    unpacked(kept, places, origin)
    for word in range(len(row)):
        row[word] = origin[word]
    hash_ = hashed_row(origin)
    orbit(origin, hash_, initials, targets, starts, image_of, images, hashes)
    return hash_


@compiled_and_kept(**UNCOUNTED)
def orbit_size(row, images):
    """How many states there are in an orbit: the renamings by those that leave the row as it is."""
    same = 1
    for place in range(len(images)):
        same += is_same(images[place], row)
    return (len(images) + 1) // same


@compiled_and_kept(**UNCOUNTED)
def changed_orbit(
    row, hash_, kept, places, leaf, leaf_start, leaf_items, targets, starts, image_of, images, hashes
):  # fmt: skip
    """Change a row with the hash `hash_`, and all images of it, as a leaf has changed it where it is packed; the least
    hash of them."""
    for item in range(leaf_start[leaf], leaf_start[leaf + 1], 2):
        word = leaf_items[item]
        value = value_of(word, kept, places)
        hash_ ^= _part(word, row[word]) ^ _part(word, value)
        row[word] = value
    least = hash_
    for place in range(len(images)):
        hash_ = hashes[place]
        for item in range(leaf_start[leaf], leaf_start[leaf + 1], 2):
            word = leaf_items[item]
            target = targets[place, word]
            if target >= 0:
                value = image_of[place, starts[word] + row[word]]
                hash_ ^= _part(target, images[place, target]) ^ _part(target, value)
                images[place, target] = value
        least = min(least, hash_)
    return least


@compiled_and_kept(**UNCOUNTED)
def undone(row, origin, leaf, leaf_start, leaf_items, targets, starts, image_of, images):
    """Take back what a leaf has changed in a row and its images."""
    for item in range(leaf_start[leaf], leaf_start[leaf + 1], 2):
        word = leaf_items[item]
        row[word] = origin[word]
        for place in range(len(images)):
            target = targets[place, word]
            if target >= 0:
                images[place, target] = image_of[place, starts[word] + origin[word]]
