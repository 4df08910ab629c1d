"""Compiles what numba compiles, the explorer's engine and the checker's screenings, once for every process to come.

It takes a minute, and what it makes is kept beside the code. A run that began without it had each of its processes
compile the same.
"""

from __future__ import annotations

from importlib import import_module

from tidegauge.linearizability.check import check
from tidegauge.linearizability.history import History, Kind, Operations
from tidegauge.linearizability.malformed import find
from tidegauge.spec.kernel.explorer import Engine, explore
from tidegauge.spec.kernel.fast.in_memory import InMemory
from tidegauge.spec.kernel.progress import Limits
from tidegauge.spec.registry import REGISTRY


class Narrow(InMemory):
    """As if there were little memory: states leave the table in sorted runs, which are merged."""

    memory = 1


def history(transaction: int | None) -> Operations:
    """One record that is written, in a transaction or in none."""
    written = History(1)
    row = written.invoke(kind=Kind.PRODUCE, process=0, call=0, values=[1], acks=-1, transaction=transaction)
    written.ok(row, returned=5, offset=0)
    return written.operations()


if __name__ == "__main__":
    for screening in ("compiled", "transactions.compiled"):  # the checker takes it once it is loaded
        import_module(f"tidegauge.linearizability.{screening}")
    for transaction in (None, 0):
        check(history(transaction))
    find(history(None))
    for name, workers in (("network", 2), ("transactions-coordinator", 1)):  # with goals, and what is owed
        explore(REGISTRY.machine(name), converges=True, engine=Engine.FAST, workers=workers)
    explore(REGISTRY.machine("consumers-interval"), limits=Limits(states=3_000), engine=Engine.FAST)  # of many values
    for symmetry in (False, True):
        explore(
            REGISTRY.machine("kip320"),
            limits=Limits(states=300),
            symmetry=symmetry,
            converges=True,
            engine=Engine.FAST,
        )
        for workers in (1, 2):
            explore(
                REGISTRY.machine("kip320"),
                limits=Limits(states=15_000),
                symmetry=symmetry,
                engine=Engine.FAST,
                workers=workers,
                storage=Narrow(),
            )
