"""One target under atheris: `python -m tidegauge.model_tests.fuzzing.search TARGET CORPUS [libFuzzer's options]`."""

from __future__ import annotations

import sys
from pathlib import Path


def main() -> None:
    import atheris

    with atheris.instrument_imports(include=["impl"]):
        from tidegauge.model_tests.fuzzing.targets import TARGETS
    target = TARGETS[sys.argv[1]]
    corpus = Path(sys.argv[2])
    for number, seed in enumerate(target.seeds()):
        (corpus / f"seed-{number}").write_bytes(seed)
    atheris.Setup([sys.argv[0], *sys.argv[3:], str(corpus)], target.run)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
