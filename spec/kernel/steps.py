"""Steps of a search by numbers of their states and actions, and what of a machine's `leads_to` they leave open.

What a search has seen is not asked of the machine again: nearly always it says that nothing can be owed for ever.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from tidegauge.spec.kernel.components import Edges
from tidegauge.spec.kernel.machine import Action

__all__ = ["Steps", "may_stay"]


def may_stay(component: Sequence[int], steps: Callable[[int], Iterable[tuple[int, int]]]) -> bool:
    """Whether weak fairness lets a behaviour stay in a component for ever: each fair action is taken in it, or is
    impossible in one of its states.

    `steps` gives of a state the number of each step's action, of one that is not fair -1 less that number, and the
    state that it leads to.
    """
    members = set(component)
    never_disabled = set.intersection(*({action for action, _ in steps(one) if action >= 0} for one in component))
    return never_disabled <= {action for one in component for action, target in steps(one) if target in members}


class Steps:
    """All steps from the states of a search, in order: some twelve bytes each."""

    def __init__(self) -> None:
        self._starts = array("Q", [0])
        self._targets = array("I")
        self._actions = array("q")
        """The number of each step's action; of one that is not fair -1 less that number."""
        self._numbers: dict[Action, int] = {}

    def add(self, action: Action, target: int, is_fair: bool) -> None:
        """A step from the state that is being expanded."""
        number = self._numbers.setdefault(action, len(self._numbers))
        self._targets.append(target)
        self._actions.append(number if is_fair else -1 - number)

    def add_all(self, actions: array[int], targets: array[int]) -> None:
        """Steps from the state that is being expanded: of each the number of its action, or -1 less it, and target."""
        self._actions.extend(actions)
        self._targets.extend(targets)

    def close(self) -> None:
        """All steps from the state have been added; those of the next one follow."""
        self._starts.append(len(self._targets))

    def left_open(self, has_come: Mapping[str, bytearray]) -> tuple[str, ...]:
        """The names of those that may be owed for ever; the others cannot, wherever they are owed.

        `has_come`: by name, of each state whether it has come there. A behaviour in which one never comes stays where
        one of them has not come. So all are asked together first.
        """
        every = bytearray(map(all, zip(*has_come.values(), strict=True)))
        if not self._may_stay(every):
            return ()
        return tuple(name for name, come in has_come.items() if len(has_come) == 1 or self._may_stay(come))

    def _may_stay(self, has_come: bytearray) -> bool:
        """Whether weak fairness lets a behaviour stay for ever in states in which it has not come."""
        return any(
            may_stay(component, self._of)
            for component in self._among(has_come).components()
            if not has_come[component[0]]
        )

    def _among(self, has_come: bytearray) -> Edges:
        """The steps from states in which it has not come; from the others none, so that they are in no circle."""
        edges = Edges()
        for state, come in enumerate(has_come):
            if not come:
                edges.add_all(self._targets[self._starts[state] : self._starts[state + 1]])
            edges.close()
        return edges

    def _of(self, state: int) -> Iterator[tuple[int, int]]:
        """The steps from a state: action and target."""
        begin, end = self._starts[state], self._starts[state + 1]
        return zip(self._actions[begin:end], self._targets[begin:end], strict=True)
