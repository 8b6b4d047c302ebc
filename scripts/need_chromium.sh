#!/usr/bin/env bash
# Chromium for the tests in tests/browser: Debian's own package, unless some Chromium is there.
set -euo pipefail
for name in chromium chromium-browser google-chrome; do
  if command -v "$name" >/dev/null; then exit 0; fi
done
run() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }
if ! command -v apt-get >/dev/null; then
  echo "no Chromium here, and no apt-get to install it with: install it and run make slow again" >&2
  exit 1
fi
run apt-get install -y --no-install-recommends chromium || { run apt-get update && run apt-get install -y --no-install-recommends chromium; }
