# shellcheck shell=bash
# The set-up that scripts/demo and scripts/test share, and what scripts say of themselves. Sourced, never run.
#
#   usage ARGUMENTS  what the script says of itself at its top
#   set_up EXTRAS    leaves a private environment in $venv, with progevo and its locked packages
#   want_browser     in CI, installs the browser in which tests look at the page
#
# PYTHON=/path/to/python chooses the interpreter, PROGEVO_VENV=/path the place of the environment
# (.venv in the checkout otherwise). Ends with 2 where Python is missing, with 3 where bubblewrap is.

root=$(CDPATH='' cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)

say() { printf '%s: %s\n' "${0##*/}" "$*" >&2; }

usage() { # ARGUMENTS: prints the comment that the script begins with
  local line
  echo "usage: scripts/${0##*/} $1"
  while IFS= read -r line; do
    case $line in
      '#!'*) ;;
      '#'*) line=${line#'#'} && echo "${line# }" ;;
      *) return ;;
    esac
  done <"$0"
}

stop() { # CODE LINE...
  local code=$1 line
  shift
  for line in "$@"; do say "$line"; done
  exit "$code"
}

# ---- system packages

may_be_root() { [ "$(id -u)" -eq 0 ] || sudo -n true 2>/dev/null; }

as_root() { if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo -n "$@"; fi; }

# What one would type, as root, to install a system package here; fails where no manager is known.
install_command() { # PACKAGE
  if command -v apt-get >/dev/null; then
    echo "apt-get install -y $1"
  elif command -v dnf >/dev/null; then
    echo "dnf install -y $1"
  elif command -v pacman >/dev/null; then
    echo "pacman -Sy --noconfirm $1"
  elif command -v apk >/dev/null; then
    echo "apk add $1"
  else
    return 1
  fi
}

# Installs a system package, or ends with the command that would.
need_package() { # PACKAGE CODE REASON
  local package=$1 code=$2 reason=$3 words
  words=$(install_command "$package") ||
    stop "$code" "$reason" "Install $package with this system's package manager, then start again."
  may_be_root || stop "$code" "$reason" "Run this, then start again:" "    sudo $words"
  say "$reason Installing it: $words"
  if [ "${words%% *}" = apt-get ]; then
    # One dead third-party source fails the whole update, and need not matter here.
    as_root apt-get update -qq >&2 || say "apt-get update failed; going on with the lists at hand."
    words="env DEBIAN_FRONTEND=noninteractive $words --no-install-recommends -qq -o DPkg::Lock::Timeout=120"
  fi
  # shellcheck disable=SC2086  # the words of a command
  as_root $words >&2 </dev/null ||
    stop "$code" "That failed. Run this, then start again:" "    sudo $(install_command "$package")"
}

need_bubblewrap() {
  if [ "$(uname -s)" != Linux ] || command -v bwrap >/dev/null; then return; fi
  need_package bubblewrap 3 "bubblewrap (bwrap), which confines every candidate, is missing."
}

# In CI (`CI` is set) the page is looked at in a real browser. Elsewhere nobody gets 200 MB unasked.
# Without one the tests say that they are skipped: so a failure to install is said, and ends nothing. `chromium` is the
# package's name everywhere but on Ubuntu, where it is a snap, which containers cannot have; bring google-chrome there.
want_browser() {
  local name
  [ -n "${CI:-}" ] || return 0
  for name in chromium chromium-browser google-chrome; do # as tests/report/browser.py looks for them
    if command -v "$name" >/dev/null; then return; fi
  done
  (need_package chromium 1 "Chromium, in which tests look at the result page, is missing.") ||
    say "Going on without Chromium: tests/report/test_browser.py will be skipped."
}

# ---- Python

# "3.12.1 /usr" for an interpreter that runs; fails for one that does not (a shim without its Python).
identity() { # PYTHON
  "$1" -c 'import sys; print("%d.%d.%d" % sys.version_info[:3], sys.base_prefix)' 2>/dev/null </dev/null
}

is_new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null </dev/null; }

has_ensurepip() { "$1" -c 'import ensurepip, venv' 2>/dev/null </dev/null; }

no_python() { # FOUND
  local advice
  case $(install_command python3 || true) in
    apt-get*) advice="sudo apt-get install python3.11 python3.11-venv   (Ubuntu 22.04 has it in universe)" ;;
    dnf*) advice="sudo dnf install python3.12" ;;
    pacman*) advice="sudo pacman -S python" ;;
    apk*) advice="sudo apk add python3" ;;
    *) advice="brew install python@3.13   (macOS)" ;;
  esac
  stop 2 "progevo needs Python 3.11 or newer. Found: ${1:-no Python at all}." \
    "Install one, for example:" \
    "    $advice" \
    "or, where the system has none: uv python install 3.13   (or: pyenv install 3.13)" \
    "and then start again; PYTHON=/path/to/python3.13 names one that is not on PATH."
}

# Sets $base: the first interpreter that is new enough, those that can make environments first.
find_python() {
  local name version found=''
  base=''
  if [ -n "${PYTHON:-}" ]; then
    version=$(identity "$PYTHON") || stop 2 "PYTHON=$PYTHON does not run."
    is_new_enough "$PYTHON" || stop 2 "PYTHON=$PYTHON is Python ${version%% *}; progevo needs 3.11 or newer."
    base=$PYTHON
  else
    for name in python3.13 python3.12 python3.11 python3; do
      version=$(identity "$name") || continue
      found="$found${found:+, }$name (${version%% *})"
      is_new_enough "$name" || continue
      [ -n "$base" ] || base=$name
      if has_ensurepip "$name"; then
        base=$name
        break
      fi
    done
    [ -n "$base" ] || no_python "$found"
  fi
  has_ensurepip "$base" || need_ensurepip
}

need_ensurepip() {
  local minor reason
  minor=$("$base" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
  reason="$base (Python $minor) cannot make environments: its ensurepip is missing."
  command -v apt-get >/dev/null || stop 2 "$reason" "Install it, or name another interpreter with PYTHON=/path."
  need_package "python$minor-venv" 2 "$reason"
  has_ensurepip "$base" || stop 2 "$reason" "Name another interpreter with PYTHON=/path."
}

# ---- the environment

place_of() { # PYTHON: where an environment stands, and on which interpreter; it works nowhere else
  local python
  python=$(identity "$1") && echo "$root | $venv | $python"
}

is_ours() {
  local made
  made=$(cat "$venv/progevo-place" 2>/dev/null) && [ "$made" = "$(place_of "$venv/bin/python")" ] || return 1
  [ -z "${PYTHON:-}" ] || [ "$made" = "$(place_of "$PYTHON")" ]
}

make_environment() {
  if [ ! -e "$venv/progevo-place" ] && [ -n "$(ls -A "$venv" 2>/dev/null)" ]; then
    stop 2 "$venv was not made by these scripts, and is left alone." \
      "Move it away, or name another place with PROGEVO_VENV=/path."
  fi
  say "making an environment in $venv with $base ($(identity "$base"))"
  rm -rf -- "$venv"
  mkdir -p -- "$venv"
  echo unfinished >"$venv/progevo-place" # so that an interrupted one is known as ours
  "$base" -m venv "$venv" >&2 || stop 2 "$base -m venv $venv failed."
  place_of "$venv/bin/python" >"$venv/progevo-place"
}

install_locked() { # EXTRAS
  local pip=("$venv/bin/python" -m pip install -qq --disable-pip-version-check --no-input -c constraints.txt)
  say "installing the locked packages"
  # No build isolation: an isolated build would fetch a setuptools that the lock does not know.
  (cd -- "$root" && "${pip[@]}" setuptools && "${pip[@]}" --no-build-isolation -e ".$1") >&2 ||
    stop 2 "pip could not install the packages of constraints.txt: see above."
}

set_up() { # EXTRAS: "" or "[test,...]"
  local extras=$1 lock
  unset PYTHONHOME PYTHONPATH PIP_USER PIP_TARGET PIP_PREFIX # each would lead pip or Python out of the environment
  venv=${PROGEVO_VENV:-$root/.venv}
  case $venv in /*) ;; *) venv=$PWD/$venv ;; esac
  is_ours || find_python
  need_bubblewrap
  is_ours || make_environment
  lock=$(cat -- "$root/constraints.txt" "$root/pyproject.toml" | cksum)
  grep -qxF -- "$lock $extras" "$venv/progevo-ready" 2>/dev/null && return
  # An environment for the tests serves the demo too.
  [ -z "$extras" ] && grep -qF -- "$lock [" "$venv/progevo-ready" 2>/dev/null && return
  rm -f -- "$venv/progevo-ready"
  install_locked "$extras"
  echo "$lock $extras" >"$venv/progevo-ready"
}
