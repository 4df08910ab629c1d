"""The cluster. Nothing of kio is imported before this."""

from impl.kio_import import import_kio

import_kio()
