# Sourced by the scripts beside it. Makes .venv where it is missing or stale and sets `root` (the
# repository) and `venv`. A stamp is the last thing written, so a set-up that was interrupted is
# made again. Everything is said on standard error: `scripts/demo --json` must stay clean.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
venv=$root/.venv
pip=("$venv/bin/python" -m pip --disable-pip-version-check --no-input install -qq
    --constraint "$root/constraints.txt")

say() { printf 'streamrf: %s\n' "$*" >&2; }

# The first Python that really runs, is new enough and can make environments. Not the one inside
# .venv, which may be active and is about to be replaced.
find_python() {
    local candidate found
    local candidates=(python3 python python3.14 python3.13 python3.12 python3.11)
    if [[ -n ${PYTHON:-} ]]; then candidates=("$PYTHON"); fi
    for candidate in "${candidates[@]}"; do
        found=$("$candidate" -c '
import ensurepip, os, sys, venv
executable = sys._base_executable or sys.executable
inside = os.path.commonpath([os.path.abspath(executable), sys.argv[1]]) == sys.argv[1]
if sys.version_info < (3, 11) or inside:
    sys.exit(1)
print(executable)' "$venv" 2>/dev/null) || continue
        printf '%s\n' "$found"
        return
    done
    say "needs Python 3.11 or newer with its venv module; found none among: ${candidates[*]}." \
        "Install one, or name it: PYTHON=/path/to/python3.11 $0"
    return 1
}

# Everything that decides what the environment holds, and where: an environment cannot be moved.
environment_key() {
    "$1" -c '
import hashlib, pathlib, sys
root = pathlib.Path(sys.argv[1])
parts = [(root / name).read_bytes() for name in ("pyproject.toml", "constraints.txt")]
parts += [sys.version.encode(), bytes(root)]
print(hashlib.sha256(b"\0".join(parts)).hexdigest())' "$root"
}

is_ready() { [[ -x $venv/bin/python && -f $venv/stamp && $(<"$venv/stamp") == "$1" ]]; }

build_environment() {
    local python=$1 key=$2
    say "setting up .venv with $("$python" --version); this takes a few minutes, once"
    if rm -rf "$venv" &&
        "$python" -m venv "$venv" &&
        "${pip[@]}" --upgrade pip && # the pinned one: --group and --build-constraint need 25.3
        "${pip[@]}" --build-constraint "$root/constraints.txt" \
            --editable "$root[plots,tables,zarr]" --group "$root/pyproject.toml:test" &&
        printf '%s\n' "$key" >"$venv/stamp.new" &&
        mv "$venv/stamp.new" "$venv/stamp"; then
        say "ready"
    else
        say "could not set up .venv (see above); run $0 again to retry"
        return 1
    fi
}

# Add the packages of a dependency group of pyproject.toml, with a stamp of their own.
ensure_group() {
    local group=$1 stamp=$venv/stamp.$1
    if [[ -f $stamp && $(<"$stamp") == "$(<"$venv/stamp")" ]]; then return; fi
    say "adding the packages of the group '$group' to .venv; this takes a minute, once"
    "${pip[@]}" --group "$root/pyproject.toml:$group"
    cp "$venv/stamp" "$stamp.new"
    mv "$stamp.new" "$stamp"
}

ensure_environment() {
    local python key
    python=$(find_python)
    key=$(environment_key "$python")
    if is_ready "$key"; then return; fi
    if command -v flock >/dev/null; then # two scripts started at once: the second waits
        exec 9>"$root/.venv.lock"
        flock 9
    fi
    if ! is_ready "$key"; then build_environment "$python" "$key"; fi
    exec 9>&-
}

ensure_environment
