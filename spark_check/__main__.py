"""`python -m tidegauge.spark_check HISTORIES… --out DIR`: check files of histories, by the million."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

from tidegauge.linearizability.log import Level
from tidegauge.linearizability.plurals import say
from tidegauge.spark_check.errors import CannotRun
from tidegauge.spark_check.job import Job, open_job
from tidegauge.spark_check.options import add_session_options, check_session, parsed, session_of
from tidegauge.spark_check.page import render
from tidegauge.spark_check.page_file import check_page, put_page
from tidegauge.spark_check.places import Place
from tidegauge.spark_check.planner import HUGE
from tidegauge.spark_check.session import NAME, check_pyspark
from tidegauge.spark_check.summary import Summary


def main(arguments: Sequence[str] | None = None) -> int:
    """0: all histories are valid; 1: some are violated; 2: the job could not run, or could not check all of them."""
    options = parsed(_parser, arguments)
    try:
        check_session(options)
        job = open_job(
            options.histories,
            options.out,
            level=Level(options.level),
            resume=options.resume,
            across_files=options.across_files,
            huge=options.blocks_from,
            table_version=options.table_version,
        )
        page = None if options.html is None else Place.of(options.html)
        if page is not None:
            check_page("--html", page, job.files, job.work.out)
        summary = job.finished
        if summary is None:
            check_pyspark()
            print(f"{say(len(job.files), 'file')} of histories; starting Spark", file=sys.stderr)
            summary = job.run(session_of(options, NAME), _show_progress)
    except CannotRun as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("error: interrupted; what is done is kept: --resume continues from there", file=sys.stderr)
        return 2
    if not summary.operations and not summary.malformed:
        print(f"warning: {', '.join(options.histories)}: no operations, so nothing is checked", file=sys.stderr)
    if options.json:
        print(json.dumps(summary.to_json()))
    else:
        for line in summary.lines():
            print(line)
    return summary.exit_status if page is None or _put_page(page, summary, job) else 2


def _put_page(page: Place, summary: Summary, job: Job) -> bool:
    """Put the page, if its place is still free after the job; else say why not."""
    try:
        text = render(summary)
        check_page("--html", page, job.files, job.work.out)
        put_page("--html", page, text)
    except CannotRun as error:
        print(f"error: {error}; with --resume the job need not run again", file=sys.stderr)
        return False
    return True


def _operations(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of operations: use 0 or more")
    return int(text)


def _version(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no version of a table: use 0 or more")
    return int(text)


def _show_progress(done: int, units: int) -> None:
    """On a terminal one line that is overwritten; elsewhere one line at the end."""
    if sys.stderr.isatty():
        print(f"\rchecked {done} of {units} units", end="\n" if done == units else "", file=sys.stderr, flush=True)
    elif done == units:
        print(f"checked {done} of {units} units", file=sys.stderr)


def _parser(is_lenient: bool = False) -> argparse.ArgumentParser:
    """The options; a lenient parser misses nothing that is not there."""
    parser = argparse.ArgumentParser(
        prog="python -m tidegauge.spark_check", description="Check files of histories with Spark."
    )
    parser.add_argument(
        "histories",
        nargs="*" if is_lenient else "+",
        metavar="HISTORIES",
        help="Parquet or JSON lines files, folders, tables of Delta or Iceberg, patterns or URIs (s3a://…)",
    )
    parser.add_argument(
        "--out", required=not is_lenient, metavar="DIR", help="where the tables go: a new or empty folder, or a URI"
    )
    levels = [level.value for level in Level]
    parser.add_argument("--level", choices=levels, default=Level.KAFKA.value, help="what a short read proves")
    parser.add_argument(
        "--across-files",
        action="store_true",
        help="the files are parts of one table: an id that two of them have is one history (default: two)",
    )
    parser.add_argument(
        "--table-version",
        type=_version,
        metavar="N",
        help="read the table of Delta at version N, that of Iceberg at snapshot N (default: the newest one)",
    )
    parser.add_argument(
        "--blocks-from",
        type=_operations,
        default=HUGE,
        metavar="N",
        help=f"judge a history of more than N operations in blocks, by many tasks (default: {HUGE:,}; 0: every one "
        "that has row groups of its own)",
    )
    parser.add_argument("--json", action="store_true", help="print the summary as one JSON object")
    parser.add_argument(
        "--html", metavar="FILE", help="write a page: counts, examples, and how to look at one history alone"
    )
    parser.add_argument("--resume", action="store_true", help="continue the job that was begun in DIR")
    add_session_options(parser)
    return parser


if __name__ == "__main__":
    sys.exit(main())
