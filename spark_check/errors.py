"""The errors of a job. Each is one message, and the exit status 2."""

from __future__ import annotations


class CannotRun(RuntimeError):  # noqa: N818 - named after the exit status
    """The job could not be run to its end. The message names the thing, the value, and what to do."""


class BadInput(CannotRun):
    """There are no files to check, or one of them cannot be read or holds no histories."""


class BadOutput(CannotRun):
    """The output folder is not empty or cannot be written."""


class NotReconciled(CannotRun):
    """The verdicts do not cover exactly the input: a defect of this job, or the input changed while it ran."""
