# shellcheck shell=bash
# Sourced by scripts/test and scripts/record from the root of the checkout, after venv.sh.

# clients_ready: the clients of tests/clients/package.json lie in .clients (git-ignored), checked against the digests of the lock file next to it.
# Where they cannot be installed, NO_CLIENTS says why: their tests are then listed as not run, and fail where CI is set.
clients_ready() {
    _install_clients
    if [ -z "${NO_CLIENTS:-}" ]; then
        VAULT_MEM_TEST_CLAUDE=${VAULT_MEM_TEST_CLAUDE:-$(_program '@anthropic-ai/claude-code-*/claude')}
        VAULT_MEM_TEST_CODEX=${VAULT_MEM_TEST_CODEX:-$(_program '@openai/codex-*/vendor/*/bin/codex')}
        export VAULT_MEM_TEST_CLAUDE VAULT_MEM_TEST_CODEX
    fi
}

# The program that a pattern below .clients/node_modules names, as an absolute path.
_program() {
    find "$(pwd)/.clients/node_modules" -type f -perm -u+x -path "*/node_modules/$1" 2>/dev/null | sort | head -n 1
}

_install_clients() {
    local lock=tests/clients/package-lock.json stamp=.clients/installed-from wanted reason
    unset NO_CLIENTS
    if [ -n "${VAULT_MEM_NO_CLIENTS:-}" ]; then
        export NO_CLIENTS='VAULT_MEM_NO_CLIENTS is set'
        return 0
    fi
    wanted=$(cksum <"$lock")
    if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$wanted" ]; then return 0; fi
    system_programs npm
    if ! command -v npm >/dev/null 2>&1; then
        export NO_CLIENTS='npm is not installed'
        return 0
    fi
    say 'installing the clients of tests/clients/package.json into .clients (about 360 MB once)'
    mkdir -p .clients
    rm -f "$stamp"
    cp tests/clients/package.json "$lock" .clients/
    # The binaries are optional packages of this platform; nothing of a package is run to install it.
    if reason=$(npm ci --prefix .clients --ignore-scripts --no-audit --no-fund --loglevel=error 2>&1); then
        printf '%s\n' "$wanted" >"$stamp"
        return 0
    fi
    say "$reason"
    export NO_CLIENTS='npm could not install them'
}
