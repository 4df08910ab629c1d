"""The cluster. Nothing of kio is imported before this."""

from tidegauge.impl.wire.kio_import import import_kio

import_kio()
