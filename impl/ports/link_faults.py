"""The faults of a link, on every host."""

from __future__ import annotations

import attrs


def _probability(_: object, attribute: attrs.Attribute[float], value: float) -> None:
    if not 0 <= value <= 1:
        raise ValueError(f"{attribute.name} is a probability between 0 and 1, not {value}")


def _range(_: object, attribute: attrs.Attribute[tuple[float, float]], value: tuple[float, float]) -> None:
    if len(value) != 2 or not 0 <= value[0] <= value[1]:
        raise ValueError(f"{attribute.name} is (least, most) in milliseconds, both at least 0, not {value}")


@attrs.frozen
class LinkFaults:
    """Faults of the frames of a link: probabilities in 0..1, times in milliseconds, drawn uniformly."""

    loss: float = attrs.field(default=0.0, validator=_probability)
    duplicate: float = attrs.field(default=0.0, validator=_probability)
    reorder: float = attrs.field(default=0.0, validator=_probability)
    delay_ms: tuple[float, float] = attrs.field(default=(0.0, 0.0), validator=_range)
    reorder_ms: tuple[float, float] = attrs.field(default=(1.0, 20.0), validator=_range)
    """How much later a reordered or duplicate frame arrives."""


NO_FAULTS = LinkFaults()
