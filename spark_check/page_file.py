"""Where the page of a job goes: found to be unusable before the job runs, and put there as a whole."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final

from pyarrow.fs import FileType

from tidegauge.linearizability.report.document import BEGINNING, may_replace
from tidegauge.spark_check.errors import BadOutput
from tidegauge.spark_check.places import Place

ENDINGS: Final = (".html", ".htm")


def check_page(option: str, page: Place, inputs: Iterable[Place], out: Place) -> None:
    """Raise BadOutput unless a page can be put at `page` when the job has run; changes nothing.

    A page takes the place of another page only, or of an empty file that is none of `inputs`. Within `out`, the folder
    of the job's tables, it goes beside them.
    """
    _keep_apart(option, page, out)
    with _told(option, page):
        kind = page.info().type
        if kind == FileType.Directory:
            raise BadOutput(f"{option} {page} is a folder: name a file")
        if kind == FileType.Unknown:
            raise BadOutput(f"{option} {page} is a device or a pipe: name a file")
        if kind == FileType.File and any(page.is_within(one) for one in inputs):
            raise BadOutput(f"{option} {page} is one of the histories: name another file")
        if kind == FileType.File and not may_replace(page.read(0, BEGINNING)):
            raise BadOutput(f"{option} {page} is there, and is no page: name another file")
        if page.has_folder():
            page.try_to_put()
        elif not page.is_within(out):  # which the job makes
            raise BadOutput(f"{option} {page}: there is no folder for it: make it first")


def put_page(option: str, page: Place, text: str) -> None:
    """Put the page, as a whole or not at all. Raises BadOutput."""
    with _told(option, page):
        page.put(text.encode())


def _keep_apart(option: str, page: Place, out: Place) -> None:
    """Raise BadOutput where the page and the job's files would be in each other's way."""
    if out.is_within(page):
        raise BadOutput(f"{option} {page} is where --out has a folder: name another file")
    # Spark takes each file in the folder of a table for a part of it, and a resumed job its own files for what it did.
    if page.is_within(out) and not ((out / page.name).is_within(page) and page.suffix in ENDINGS):
        raise BadOutput(f"{option} {page} is among the files of --out: name one elsewhere, such as {out / 'page.html'}")


@contextmanager
def _told(option: str, page: Place) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise BadOutput(f"{option} {page} cannot be written ({error.strerror or error}): name another file") from error
