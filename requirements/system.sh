#!/usr/bin/env bash
# Installs Debian packages: `run` what the factory needs to run, `test` also what its tests use. The Dockerfile and
# .ci/run both call it, so that an image is made of steps that CI has run.
set -euo pipefail
run=(make g++ bubblewrap libseccomp2 postgresql-client)
test=(postgresql redis-server chromium docker-compose)
case "${1:-}" in
  run) packages=("${run[@]}") ;;
  test) packages=("${run[@]}" "${test[@]}") ;;
  *) echo "usage: requirements/system.sh run|test" >&2; exit 2 ;;
esac
as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }
as_root apt-get update -qq
as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${packages[@]}" >/dev/null
