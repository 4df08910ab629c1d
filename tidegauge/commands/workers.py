"""How many workers a command may start: processes or threads of one machine."""

from __future__ import annotations

from tidegauge.exits import Unusable
from tidegauge.spec.kernel.progress import MOST_WORKERS

__all__ = ["check_workers"]


def check_workers(workers: int) -> None:
    """Raises Unusable for a number of workers that no machine has cores for, before any of them is started."""
    if not 1 <= workers <= MOST_WORKERS:
        raise Unusable(
            f"--workers {workers}: give at least 1 and at most {MOST_WORKERS}, as many as there are idle cores"
        )
