#!/usr/bin/env bash
# Rewrites requirements/lock.txt: every package but torch, with hashes, for Python 3.11 and newer. Needs the package uv.
# torch is left out because the build (CPU) is chosen at install time; nothing younger than a week enters.
set -euo pipefail
cd "$(dirname "$0")"
without_torch=$(mktemp)
trap 'rm -f "$without_torch"' EXIT
echo "torch ; sys_platform == 'never'" > "$without_torch"
uv pip compile --universal --python-version 3.11 --generate-hashes --no-annotate --no-header --no-emit-package torch \
  --override "$without_torch" --exclude-newer "$(date -d '7 days ago' +%F)" runtime.in dev.in -o lock.txt
