"""Bottom components are found alike by the compiled code and by the plain one."""

from __future__ import annotations

from random import Random

import numpy as np

from tidegauge.spec.kernel.components import Edges
from tidegauge.spec.kernel.fast.components import FairSteps
from tidegauge.spec.kernel.fast.in_memory import InMemory


def fair_steps() -> FairSteps:
    storage = InMemory()
    return FairSteps(lambda name, kind: storage.array(name, kind, 16), storage)


def test_random_graphs_have_the_same_bottom_components() -> None:
    found_some = 0
    for seed in range(300):
        random = Random(seed)
        states = random.randint(1, 30)
        closed = states if seed % 4 else random.randint(0, states)
        plain, fast = Edges(), fair_steps()
        fast.have_states(states)
        for state in range(closed):
            for _ in range(random.randint(0, 2)):
                target = random.randrange(states)
                plain.add(target)
                fast.make_room(1)
                fast.targets[fast.count] = target
                fast.count += 1
            plain.close()
            fast.starts[state + 1] = fast.count
        fast.closed = closed
        components = sorted(fast.bottom_components())
        assert components == sorted(plain.bottom_components()), f"seed {seed}"
        found_some += any(len(component) > 1 for component in components)
    assert found_some > 20


def test_a_long_path_needs_no_recursion() -> None:
    fast, states = fair_steps(), 50_000
    fast.have_states(states)
    fast.make_room(states)
    fast.targets[:states] = (np.arange(states) + 1) % states
    fast.starts[: states + 1] = np.arange(states + 1)
    fast.count, fast.closed = states, states
    (component,) = fast.bottom_components()
    assert component == list(range(states))
