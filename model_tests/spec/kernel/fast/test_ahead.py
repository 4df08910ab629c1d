"""Behind a state that Python has to be asked about, the kernel keeps the steps that it knows already."""

from __future__ import annotations

import pytest

from tidegauge.model_tests.amounts import amount
from tidegauge.model_tests.spec.kernel.fast.random_machines import RandomMachine
from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.exploration import Engine
from tidegauge.spec.kernel.explorer import explore
from tidegauge.spec.kernel.fast import ahead, kernel
from tidegauge.spec.kernel.fast.ahead import Ahead
from tidegauge.spec.kernel.progress import Limits, Stop


def test_random_machines_are_explored_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = []
    begin = Ahead.begin

    def counted(self: Ahead, start: int, end: int) -> None:
        kept.append(int(self.arrays[-1][kernel.FREE]))
        begin(self, start, end)

    monkeypatch.setattr(Ahead, "begin", counted)
    monkeypatch.setattr(ahead, "ROOM", 64)
    for seed in range(amount(60, deep=3000)):
        stop = (Stop.FIRST, Stop.EACH, Stop.NEVER)[seed % 3]
        limits = Limits(states=400) if seed % 4 else Limits(states=1 + seed % 90, depth=2 + seed % 7)
        plain = explore(RandomMachine(seed), stop=stop, limits=limits, converges=True, engine=Engine.PLAIN)
        fast = explore(RandomMachine(seed), stop=stop, limits=limits, converges=True, engine=Engine.FAST)
        assert evolve(fast, engine=Engine.PLAIN) == plain, f"RandomMachine({seed}), {stop}, {limits}"
    assert sum(kept) > 100
    assert max(kept) <= 64
