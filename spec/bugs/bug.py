"""What a bug is: a class of a machine with one rule as it once was, and a small model in which it shows.

`reference` says where it comes from, or that no version of Kafka had it.
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar, cast

import attrs

from tidegauge.spec.kernel.machine import Machine

M_co = TypeVar("M_co", bound=Machine[Any], covariant=True)


@attrs.frozen
class Bug(Generic[M_co]):
    """One entry of the zoo, of whichever machine."""

    name: str
    title: str
    reference: str
    mechanism: str
    """A sentence on how it goes wrong."""
    violates: tuple[str, ...]
    """The properties that it makes false in `model`; which one a search meets first is left open."""
    buggy: type[Any]
    """A subclass of one of the classes that the machine is made of: it overrides the rule that was wrong."""
    model: M_co
    """The correct machine, with constants small enough to explore and large enough to show the bug."""

    @property
    def replaced(self) -> type[Any]:
        """The class whose rule is overridden."""
        found = next((kind for kind in self.model.kinds if issubclass(self.buggy, kind)), None)
        if found is None:
            raise TypeError(f"{self.name}: {self.buggy.__name__} overrides nothing that {self.model.name} is made of")
        return found

    def fits(self, machine: Machine[Any]) -> bool:
        """Whether the bug can be switched on in a machine."""
        return self.replaced in machine.kinds

    def switched_on(self, machine: Machine[Any]) -> Machine[Any]:
        """The same machine with the bug. Raises ValueError where there is no such rule."""
        if not self.fits(machine):
            raise ValueError(f"{machine.name} has no rule of {self.replaced.__name__}, which {self.name} breaks")
        return machine.exchanged(self.replaced, self.buggy)

    def machine(self) -> M_co:
        """The small model with the bug."""
        return cast("M_co", self.switched_on(self.model))

    def correct_machine(self) -> M_co:
        """The small model without it."""
        return self.model
