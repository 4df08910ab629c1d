"""Coverage-guided fuzzing of every target: `python -m tidegauge.model_tests.fuzzing [--inputs N] [--target NAME]`.

atheris (libFuzzer for Python) chooses the inputs by what code they reach; a finding is written to a file and printed
with the line that repeats it. Each target runs in a process of its own, for libFuzzer ends its process.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

SHARES = {"frame": 50, "connection": 8, "records": 40, "segment": 2}
"""Percent of the inputs that each target gets: the fast ones most."""


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tidegauge.model_tests.fuzzing", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--inputs", type=int, default=1_000_000, help="inputs over all targets (default: %(default)s)")
    parser.add_argument("--target", choices=list(SHARES), help="only this target, with all of the inputs")
    parser.add_argument("--replay", type=Path, metavar="FILE", help="run --target once, on the bytes of a finding")
    parser.add_argument("--seed", type=int, default=1, help="of the search (default: %(default)s)")
    parser.add_argument("--out", type=Path, default=Path("fuzzing"), help="folder for findings (default: %(default)s)")
    options = parser.parse_args(words)
    if options.inputs < 1:
        parser.error(f"--inputs {options.inputs}: give at least 1")
    if options.replay is not None:
        return replay(parser, options.target, options.replay)
    try:
        import atheris  # noqa: F401 - only to say early that it is not there
    except ImportError:
        parser.exit(2, "atheris is not installed: pip install 'tidegauge[fuzz]' (it has wheels for Linux)\n")
    shares = {options.target: 100} if options.target else SHARES
    options.out.mkdir(parents=True, exist_ok=True)
    found = 0
    for target, percent in shares.items():
        runs = max(1, options.inputs * percent // 100)
        print(f"{target}: {runs:,} inputs, seed {options.seed}", flush=True)
        found += search(target, runs, options.seed, options.out) != 0
    print(f"{found} of {len(shares)} targets have a finding" if found else "nothing found", flush=True)
    return 1 if found else 0


def replay(parser: argparse.ArgumentParser, target: str | None, file: Path) -> int:
    """Run one input, so that its exception shows."""
    from tidegauge.model_tests.fuzzing.targets import TARGETS

    if target is None:
        parser.error("--replay needs --target: which of them does the file belong to?")
    if not file.is_file():
        parser.error(f"--replay {file}: there is no such file")
    TARGETS[target].run(file.read_bytes())
    print(f"{target} takes {file} as it should")
    return 0


def search(target: str, runs: int, seed: int, out: Path) -> int:
    """One target in a process of its own; returns libFuzzer's exit status."""
    with tempfile.TemporaryDirectory() as corpus:
        command = [sys.executable, "-m", "tidegauge.model_tests.fuzzing.search", target, corpus]
        limits = [f"-runs={runs}", f"-seed={seed}", f"-artifact_prefix={out}/{target}-", "-max_len=4096"]
        ended = subprocess.run([*command, *limits, "-rss_limit_mb=2048", "-timeout=20", "-verbosity=0"], check=False)
    if ended.returncode:
        print(f"again: python -m tidegauge.model_tests.fuzzing --target {target} --replay {out}/{target}-…", flush=True)
    return ended.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
