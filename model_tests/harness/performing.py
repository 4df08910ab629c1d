"""Which function makes an implementation perform which class of action.

A `Steps` is a table that the type checker has checked line by line: `on(Crash, crash)` is accepted if `crash` takes a
`Crash`. The steps of an extension go over those of its base, action by action.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Concatenate, Generic, ParamSpec, TypeAlias, TypeVar

from tidegauge.spec.kernel.machine import Action

B = TypeVar("B")
B_contra = TypeVar("B_contra", contravariant=True)
A = TypeVar("A", bound=Action)
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
P = ParamSpec("P")

Line: TypeAlias = tuple[type[Action], Callable[Concatenate[B, Any, P], R]]
"""A class of action, and the function that performs an action of that class."""


def on(kind: type[A], step: Callable[Concatenate[B, A, P], R]) -> Line[B, P, R]:
    """A line of a table: this function performs the actions of this class."""
    return kind, step


class Steps(Generic[B_contra, P, R_co]):
    """The functions by which a binding of class `B_contra` performs actions; `P` is what they are told besides."""

    def __init__(self, *lines: Line[B_contra, P, R_co], over: Steps[B_contra, P, R_co] | None = None) -> None:
        """These lines, and those of the table that they go over for all other classes of action."""
        self._of: dict[type[Action], Callable[Concatenate[B_contra, Any, P], R_co]] = {}
        if over is not None:
            self._of.update(over._of)
        self._of.update(lines)

    def perform(self, binding: B_contra, action: Action, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Have the binding perform the action."""
        return self._of[type(action)](binding, action, *args, **kwargs)

    def __contains__(self, kind: type[Action]) -> bool:
        return kind in self._of

    def __iter__(self) -> Iterator[type[Action]]:
        """The classes of action that can be performed."""
        return iter(self._of)
