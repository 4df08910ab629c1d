"""What can go wrong before a verdict: the job says it in one message and exits with 2."""

from __future__ import annotations


class CannotRun(RuntimeError):  # noqa: N818 - a state of affairs, with the way out
    """The job could not be run to its end; the message names the thing, the value and the way out."""


class BadInput(CannotRun):
    """There are no files to judge, or one cannot be read or is no table of histories."""


class BadOutput(CannotRun):
    """The output folder holds something else, or cannot be written."""


class NotReconciled(CannotRun):
    """What was judged is not what is in the input: a defect of this job, or the input changed under it."""
