"""What the handlers of a controller's requests may name as their collaborators.

A keyword-only parameter of a handler is bound to the field of the same name, and has its type.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from tidegauge.impl.server.controller.node import ControllerNode


@attrs.frozen
class ControllerCollaborators:
    """A controller's parts, by the names that handlers call them."""

    node: ControllerNode
