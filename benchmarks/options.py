"""The options of a benchmark: `--help` prints its module's docstring, and what it does not know is refused."""

from __future__ import annotations

import argparse


def parser(name: str, doc: str | None, *, quick: str = "") -> argparse.ArgumentParser:
    """The parser of `benchmarks.<name>`, whose docstring is `doc`.

    `quick` says what `--quick` makes of it; without it there is no such option.
    """
    options = argparse.ArgumentParser(
        prog=f"python -m benchmarks.{name}",
        description=doc,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    if quick:
        options.add_argument("--quick", action="store_true", help=quick)
    return options
