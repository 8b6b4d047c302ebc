#!/usr/bin/env bash
# Creates a virtual environment with Python 3.11 or newer: scripts/make_venv.sh DIR
# On a bare Debian or Ubuntu it installs the missing system package when it runs as root, and says what to type otherwise.
set -euo pipefail
venv=${1:?usage: make_venv.sh DIR}

is_new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

find_python() {
    local candidate
    for candidate in ${PYTHON:-} python3 python3.13 python3.12 python3.11 python3.14; do
        if command -v "$candidate" >/dev/null && is_new_enough "$candidate"; then
            command -v "$candidate"
            return
        fi
    done
    return 1
}

install_system_packages() {
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        echo "installing system packages: $*" >&2
        apt-get update -qq >&2 && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$@" >&2
    else
        echo "certloop needs these system packages; install them and run make again:  sudo apt-get install -y $*" >&2
        return 1
    fi
}

python=$(find_python) || {
    install_system_packages python3 python3-venv
    python=$(find_python) || {
        echo "certloop needs Python 3.11 or newer and found only $(python3 --version 2>&1); pass one with  make PYTHON=/path/to/python3.11" >&2
        exit 1
    }
}
if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
    version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    install_system_packages "python$version-venv"
fi
"$python" -m venv "$venv"
echo "created $venv with $("$venv/bin/python" --version)" >&2
