#!/usr/bin/env bash
# Makes .venv: checks the machine first, then installs torch by version, then the rest from the hash-locked list.
# Environment: PYTHON (interpreter, default python3), TORCH_INDEX_URL (an index that serves CPU builds of torch).
set -euo pipefail
cd "$(dirname "$0")/.."
PYTHON=${PYTHON:-python3}
TORCH=torch==2.13.0

fail() { echo "make setup: $1" >&2; exit 1; }

[ "$(uname -s)-$(uname -m)" = "Linux-x86_64" ] || fail "this product runs on Linux x86-64, and this machine is $(uname -s) $(uname -m)."
command -v "$PYTHON" >/dev/null || fail "no $PYTHON found: install Python 3.11 or newer, or name one with PYTHON=/path/to/python3."
"$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || fail "$("$PYTHON" -V) is too old: install Python 3.11 or newer, or name one with PYTHON=."
"$PYTHON" -c 'import venv, ensurepip' 2>/dev/null || fail "Python's venv module is missing: install the system package python3-venv."
"$PYTHON" -c 'import os, sys, sysconfig; sys.exit(not os.path.exists(os.path.join(sysconfig.get_paths()["include"], "Python.h")))' \
  || fail "Python.h is missing: install the headers of $("$PYTHON" -V) (system package python3-dev)."
command -v g++ >/dev/null || fail "no C++ compiler found: install the system package g++."
echo 'int main() { if constexpr (true) return 0; }' | g++ -std=c++17 -x c++ -fsyntax-only - 2>/dev/null \
  || fail "g++ does not accept C++17: install g++ 9 or newer."

STAMP=.venv/.setup-$(cat requirements/lock.txt requirements/setup.sh pyproject.toml adapters/pyproject.toml | sha256sum | cut -c1-16)
if [ -f "$STAMP" ]; then
  exit 0
fi
[ -x .venv/bin/python ] || "$PYTHON" -m venv .venv
PIP=(.venv/bin/python -m pip --disable-pip-version-check --quiet)
echo "Installing torch ..."
"${PIP[@]}" install "$TORCH" ${TORCH_INDEX_URL:+--index-url "$TORCH_INDEX_URL"}
echo "Installing the locked packages ..."
"${PIP[@]}" install --require-hashes --no-deps -r requirements/lock.txt
echo "Installing the factory and spyre-adapters ..."
"${PIP[@]}" install --no-deps --no-build-isolation -e . -e adapters
.venv/bin/python -m pip --disable-pip-version-check check
echo "Building the simulated device ..."
.venv/bin/python -m sim_backend.device.build
rm -f .venv/.setup-*
touch "$STAMP"
