"""What an error of the file system concerns: one name, the moment, or the whole disk.

An error is bounded to what it concerns. A disk without room, or a process without descriptors, fails what is tried now:
it is tried again, and goes on when there is room. A name that is too long, missing or forbidden fails what lies under
that name. Anything else is taken for a device that fails: nobody knows what of it is on stable storage.
"""

from __future__ import annotations

import errno
import os
from enum import Enum
from typing import Final


class Extent(Enum):
    """What an error concerns."""

    PASSING = "there is no room"
    NAME = "one name cannot be used"
    DISK = "the disk fails"


PASSING: Final = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN, errno.EFBIG}
)
NO_DESCRIPTORS: Final = frozenset({errno.EMFILE, errno.ENFILE})
"""Raised by what opens a file, and never by what writes or syncs one."""
NAMES: Final = frozenset(
    {
        errno.ENAMETOOLONG,
        errno.EACCES,
        errno.EPERM,
        errno.ENOENT,
        errno.ENOTDIR,
        errno.EISDIR,
        errno.EEXIST,
        errno.ENOTEMPTY,
        errno.ELOOP,
    }
)


def extent_of(error: OSError) -> Extent:
    """What the error concerns, by its number."""
    if error.errno in PASSING:
        return Extent.PASSING
    return Extent.NAME if error.errno in NAMES else Extent.DISK


def told(error: OSError) -> str:
    """The error for a log line: its number's name, what the system says, and the file."""
    if error.errno is None:
        return str(error)
    name = errno.errorcode.get(error.errno, str(error.errno))
    where = "" if error.filename is None else f": {error.filename}"
    return f"{name} ({error.strerror or os.strerror(error.errno)}){where}"
