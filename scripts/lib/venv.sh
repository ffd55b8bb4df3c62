# shellcheck shell=bash
# Sourced by scripts/test, scripts/check and scripts/demo from the root of the checkout.

say() { printf '%s\n' "$*" >&2; }

# The first interpreter on PATH that is new enough; a message that says what is missing where there is none.
find_python() {
    local name
    for name in "${PYTHON:-}" python3.13 python3.12 python3.11 python3.14 python3; do
        [ -n "$name" ] || continue
        if "$name" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
            printf '%s\n' "$name"
            return 0
        fi
    done
    say 'vault-mem needs Python 3.11 or newer with the venv module, and none was found.'
    say 'Looked for: the variable PYTHON, python3.13 python3.12 python3.11 python3.14 python3.'
    say 'On Debian: apt-get install python3 python3-venv. On macOS: brew install python@3.12.'
    return 1
}

# venv_ready REQUIREMENT [editable]: .venv holds REQUIREMENT of this checkout. Nothing is installed twice for the same pyproject.toml.
venv_ready() {
    local requirement=$1 how=${2:-} python stamp wanted options
    if [ ! -x .venv/bin/python ] || ! .venv/bin/python -c 'import pip' >/dev/null 2>&1; then
        python=$(find_python)
        say "making .venv with $("$python" --version)"
        "$python" -m venv --clear .venv
    fi
    stamp=.venv/installed-from
    wanted="$requirement $how $(pwd) $(cksum <pyproject.toml)"
    # A copy is stale as soon as a source file changes; an editable install is not.
    # What the tests need contains what the program needs.
    if [ "$how" = editable ] && [ -f "$stamp" ]; then
        case $(cat "$stamp") in
        "$wanted" | ".[dev] ${wanted#* }") return 0 ;;
        esac
    fi
    options=(--quiet --disable-pip-version-check --no-input)
    if [ "$how" = editable ]; then options+=(--editable); fi
    say "installing $requirement into .venv"
    rm -f "$stamp"
    .venv/bin/python -m pip install "${options[@]}" "$requirement"
    # Below a folder with a blank in its name pip leaves a script that no system can start; `vault-mem init` mends that, and so do we.
    .venv/bin/python -c 'import sys
from vault_mem.install import launcher
path = launcher.mendable(sys.executable)
if path: launcher.mend(path, sys.executable)'
    printf '%s\n' "$wanted" >"$stamp"
}

# system_programs NAME...: installs what is missing where this user may (Debian, as root or with a sudo that asks nothing); says what stays missing.
system_programs() {
    local name missing=() sudo=()
    for name in "$@"; do
        command -v "$name" >/dev/null 2>&1 || missing+=("$name")
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    if [ "$(id -u)" != 0 ]; then sudo=(sudo -n); fi
    if command -v apt-get >/dev/null 2>&1 && ${sudo[@]+"${sudo[@]}"} true >/dev/null 2>&1; then
        say "installing ${missing[*]}"
        ${sudo[@]+"${sudo[@]}"} apt-get update -qq >/dev/null 2>&1 || true
        DEBIAN_FRONTEND=noninteractive ${sudo[@]+"${sudo[@]}"} apt-get install -y -qq "${missing[@]}" >/dev/null 2>&1 || true
    fi
    for name in "${missing[@]}"; do
        command -v "$name" >/dev/null 2>&1 || say "not installed here: $name (tests that need it are listed as not run)"
    done
}
