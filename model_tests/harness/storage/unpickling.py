"""Reading values of a checkpoint: classes of this project and plain containers, nothing else that a pickle may name."""

from __future__ import annotations

import io
import pickle
from typing import Any

__all__ = ["loaded"]

_ALLOWED = {
    ("builtins", "frozenset"),
    ("builtins", "set"),
    ("collections", "OrderedDict"),
}
_PACKAGE = "tidegauge."


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in _ALLOWED:
            return super().find_class(module, name)
        found = super().find_class(module, name) if module.startswith(_PACKAGE) else None
        if not isinstance(found, type):
            raise pickle.UnpicklingError(f"it names {module}.{name}, which is no class of a specification")
        return found


def loaded(packed: bytes) -> Any:
    """What was pickled. Raises pickle.UnpicklingError for what no state is made of."""
    return _Unpickler(io.BytesIO(packed)).load()
