"""CRC32-C, imported without the command line of the package that has it.

The package `crc32c` imports its command line and its own metadata with it: `argparse`, `email`, `zipfile`, some fifty
modules in all, as much as everything else that this project reads records with. The function is in an extension module
beside them, which is loaded here alone. Where it is not found under that name, the package is imported whole.
"""

from __future__ import annotations

from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from typing import TYPE_CHECKING, Any, Final

EXTENSION: Final = "crc32c._crc32c"


def load_extension() -> Any:
    """The extension module; the package where it has none of this name. Raises ImportError when there is neither."""
    package = find_spec(EXTENSION.partition(".")[0])  # a package is found without being imported
    found = None if package is None else PathFinder.find_spec(EXTENSION, package.submodule_search_locations)
    if found is None or found.loader is None:
        import crc32c as whole

        return whole
    module = module_from_spec(found)
    found.loader.exec_module(module)
    return module


if TYPE_CHECKING:
    from crc32c import crc32c as crc32c
else:
    crc32c = load_extension().crc32c
