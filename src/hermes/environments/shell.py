"""Runs each command of a session in a new shell that continues the state of the last one.

Every command gets a new bash, which loads the session's state, runs the command and saves the state
atomically: working folder, variables (exported or not), functions, aliases, options, umask and
`$?`. An environment only has to run an argv; so a host, a container and a remote machine all keep
their state in the same way, inside the environment.

Intended behaviour:
- Parallel commands each start from the current state; the state of the last to end is kept.
- A command that is ended by a signal, or replaces its shell (`exec`), does not change the state.
- `set -e` is for one command: otherwise it would end every later one at its first failure.
- A folder given with a command is for that command only.
- Traps, jobs, positional parameters and ulimits are not kept; nothing is kept when a command sets
  its own EXIT trap and then calls `exit`.
"""

import secrets
from collections.abc import Mapping
from functools import lru_cache
from shlex import quote

from hermes.core.errors import ToolError
from hermes.core.messages import Value

TREE_VARIABLE = "HERMES_TREE"
"""Marks all processes of one command, so that detached ones are found."""

MAX_INLINE_COMMAND_BYTES = 100_000
"""A command of this size fits into one variable (Linux allows 128 KiB)."""

FOLDER_MARK = b"\nreturn 0 # the working folder follows\n"

_SHELL_OWN_VARIABLES = (
    "__hermes_*|HERMES_TREE|_|BASH|BASHOPTS|BASHPID|BASH_*|COMP_*|DIRSTACK|EPOCH*|EUID|FUNCNAME|"
    "GROUPS|HISTCMD|LINENO|OLDPWD|OPTERR|OPTIND|PIPESTATUS|PPID|PWD|*RANDOM|SECONDS|SHELLOPTS|"
    "SHLVL|UID"
)
"""Variables that bash or these scripts set in each shell."""

# One line, so that an error in the first line of a command is reported in line 1. Everything else
# is passed in variables: arguments are visible to `ps`, and matched by `pkill -f`.
# The command runs with the descriptor of the new state closed: the copy that bash keeps until the
# end of the group is closed in every program that it starts.
_RUN_SCRIPT = (
    'builtin eval "$HERMES_PRELUDE"; __hermes_status; { builtin eval "$__hermes_command"; }%s; '
    "{ __hermes_end $?; } 2>&-"
)

# Everything is in functions or one group: bash parses that before the state adds aliases that
# could change its meaning. Only builtins are used, besides `mv`: a fork costs more than all the
# rest. bash parses about 6 KB in a millisecond, and functions more slowly: what a shell does not
# need is left out, and what is rarely needed, or only at the end, is evaluated from a string (with
# aliases switched off).
_PRELUDE_SCRIPT = r"""
__hermes_save=%END%
__hermes_end() {
  [[ -z $__hermes_done ]] || return "$1"
  __hermes_done=1 __hermes_n=$1 __hermes_shopts=$BASHOPTS
  builtin shopt -u expand_aliases
  builtin eval "$__hermes_save"
  builtin shopt -s expand_aliases
  return "$__hermes_n"
}
__hermes_status() { return "$__hermes_last"; }
{
  %GIVEN%
  builtin shopt -s expand_aliases
  __hermes_done= __hermes_flags= __hermes_last=0 __hermes_old=
  __hermes_usual_shopts=$BASHOPTS __hermes_usual_options=$SHELLOPTS
  %LOAD%
  %PREFER%
  builtin cd -- "$__hermes_at" 2>&- || {
    __hermes_shopts=$BASHOPTS
    builtin shopt -u expand_aliases
    builtin eval %FOLDER_GONE%
  }
  __hermes_at=$PWD
  if [[ -n $__hermes_old ]]; then OLDPWD=$__hermes_old; else builtin unset -v OLDPWD; fi
  %GO%
  __hermes_command=$__hermes_flags$__hermes_command
  builtin trap '{ __hermes_n=$?; [[ -n $__hermes_done ]] || __hermes_end $__hermes_n; } 2>&-' EXIT
  builtin trap '{ __hermes_done=1; builtin exit 143; } 2>&-' TERM
}
"""

_FOLDER_GONE_SCRIPT = r"""
__hermes_n=$__hermes_at
while [[ $__hermes_n == */?* ]]; do
  __hermes_n=${__hermes_n%/*}
  [[ -n $__hermes_n ]] && builtin cd -- "$__hermes_n" 2>&- && break
done
[[ -n $__hermes_n ]] || builtin cd -- "${HOME:-/}" 2>&- || builtin cd /
builtin printf '[the working folder %s is gone; now in %s]\n' "$__hermes_at" "$PWD" >&2
[[ :$__hermes_shopts: != *:expand_aliases:* ]] || builtin shopt -s expand_aliases
"""

_GO_SCRIPT = r"""
case $__hermes_cwd in '~'|'~/'*) __hermes_cwd=$HOME${__hermes_cwd:1} ;; esac
if ! builtin cd -- "$__hermes_cwd" 2>&-; then
  builtin printf '[not run: there is no folder %s to go to]\n' "$__hermes_cwd" >&2
  %NOT_RUN%
  builtin exit 1
fi
"""

# `>|` because the command may have set noclobber.
_WRITE_EXIT_CODE_SCRIPT = r"""
builtin printf '%s' "$__hermes_n" >| "$__hermes_exit"
"""

_SAVE_SCRIPT = r"""
__hermes_flags=
[[ $- != *x* ]] || __hermes_flags='set -x; '
[[ $- != *v* ]] || __hermes_flags+='set -v; '
builtin set +exv
%UNDO%
builtin unset -f __hermes_end __hermes_status
%FOLDER%
builtin shopt -s extglob
%NAMES%
{
  builtin printf '%CUT%'
  %FIRST%
  builtin umask -p
  builtin printf '%CUT%'
  builtin declare -p "${__hermes_names[@]}"
  builtin printf '%CUT%'
  builtin declare -f
  builtin declare -F
  builtin alias -p
  if [[ $__hermes_shopts == "$__hermes_usual_shopts" ]]; then
    builtin printf 'builtin shopt -u extglob\n'
  else
    [[ :$__hermes_shopts: == *:extglob:* ]] || builtin shopt -u extglob
    [[ :$__hermes_shopts: != *:expand_aliases:* ]] || builtin shopt -s expand_aliases
    builtin shopt -p
  fi
  [[ $SHELLOPTS == "$__hermes_usual_options" ]] || builtin set +o
  builtin printf '%CUT%'
  builtin printf '%s=%q ' __hermes_flags "$__hermes_flags" __hermes_last "$__hermes_n" \
    __hermes_at "$__hermes_at" __hermes_old "$__hermes_old"
  builtin printf '\nreturn 0 # the working folder follows\n%s' "$__hermes_at"
} %SAVE%
"""

_LIST_NAMES = f"builtin compgen -v -X '@({_SHELL_OWN_VARIABLES})'"

# What was there at first and was unset since must not come back with the next shell.
# Functions may need extglob to be read.
_UNSET_FIRST_SCRIPT = r"""
builtin printf 'builtin unset -v'
builtin printf ' %q' "${__hermes_first[@]}"
builtin printf '\nbuiltin shopt -s extglob\n'
builtin declare -p __hermes_first
"""

_STATE_IN_FOLDER = {
    "%NAMES%": f"""
  {_LIST_NAMES} >| "$__hermes_new"
  builtin mapfile -t __hermes_names < "$__hermes_new"
""",
    "%CUT%": "",
    "%SAVE%": r""">| "$__hermes_new" &&
    builtin command -p mv -f -- "$__hermes_new" "$__hermes_folder/state"
""",
    "%LOAD%": r"""
  __hermes_new=$__hermes_folder/new.$HERMES_TREE __hermes_state=$__hermes_folder/state
  if [[ -r $__hermes_state ]]; then
    builtin source "$__hermes_state" >&- 2>&-
  else
    [[ -d $__hermes_folder ]] || builtin command -p mkdir -p -m 700 -- "$__hermes_folder"
    builtin shopt -s extglob
    builtin compgen -e -X '@(HERMES_TREE|PWD|OLDPWD|SHLVL|_)' >| "$__hermes_new"
    builtin shopt -u extglob
    builtin mapfile -t __hermes_first < "$__hermes_new"
  fi
""",
}

_STATE_IN_DESCRIPTORS = {
    "%NAMES%": f"""
  if [[ -e /proc/self/fd ]]; then
    {_LIST_NAMES} >&%OUT%
    builtin mapfile -t __hermes_names < /proc/self/fd/%OUT%
  else builtin mapfile -t __hermes_names < <({_LIST_NAMES}); fi
""",
    "%CUT%": r"\0",
    "%SAVE%": ">&%OUT%",
    "%LOAD%": r"""
  builtin source /dev/fd/%IN% >&- 2>&-
  exec %IN%<&-
""",
}

_PREFER_SCRIPT = r"""
__hermes_undo=()
for __hermes_n in %PREFERRED%; do
  [[ -v ${__hermes_n%%=*} ]] || __hermes_undo+=("$__hermes_n")
done
[[ ! -v TMPDIR ]] || __hermes_temporary=$TMPDIR
builtin export "${__hermes_undo[@]}" %TMPDIR%
"""

_UNDO_PREFERENCE_SCRIPT = r"""
builtin unset -v "${__hermes_undo[@]%%=*}" TMPDIR
[[ ! -v __hermes_temporary ]] || builtin export TMPDIR=$__hermes_temporary
"""

_GIVEN_VARIABLES = {
    "HERMES_START": "__hermes_at",
    "HERMES_COMMAND": "__hermes_command",
    "HERMES_FOLDER": "__hermes_folder",
    "HERMES_CWD": "__hermes_cwd",
    "HERMES_EXIT": "__hermes_exit",
    "HERMES_TTY": "__hermes_tty",
}


@lru_cache(maxsize=64)
def _prelude(
    given: tuple[str, ...],
    descriptors: tuple[int, int] | None,
    preferred: tuple[tuple[str, str], ...],
    names: frozenset[str] | None,
) -> str:
    """The script that loads and saves the state; `given` are the `_GIVEN_VARIABLES` it gets."""
    parts = _state_parts(descriptors) | _preference_parts(dict(preferred), names)
    parts["%FIRST%"] = _UNSET_FIRST_SCRIPT if names is None else ""
    parts["%GIVEN%"] = " ".join(f"{_GIVEN_VARIABLES[each]}=${each}" for each in given)
    parts["%GIVEN%"] += f"\nbuiltin unset -v HERMES_PRELUDE {' '.join(given)}"
    if "HERMES_TTY" in given:
        parts["%GIVEN%"] += '\nbuiltin exec 0<>"$__hermes_tty" 1>&0 2>&0'
        parts["%PREFER%"] = f"builtin export TERM=xterm-256color\n{parts['%PREFER%']}"
    background, goes = "HERMES_EXIT" in given, "HERMES_CWD" in given
    parts["%NOT_RUN%"] = "__hermes_end 1" if background else ""
    parts["%FOLDER%"] = "" if goes else "__hermes_at=$PWD __hermes_old=${OLDPWD-}"
    save = _fill(_WRITE_EXIT_CODE_SCRIPT if background else _SAVE_SCRIPT, parts)
    start = _PRELUDE_SCRIPT.replace("%GO%", _GO_SCRIPT if goes else "")
    parts |= {"%END%": quote(save), "%FOLDER_GONE%": quote(_fill(_FOLDER_GONE_SCRIPT, {}))}
    return _fill(start, parts)


def _state_parts(descriptors: tuple[int, int] | None) -> dict[str, str]:
    if descriptors is None:
        return dict(_STATE_IN_FOLDER)
    found = {}
    for name, text in _STATE_IN_DESCRIPTORS.items():
        found[name] = text.replace("%IN%", str(descriptors[0])).replace(
            "%OUT%", str(descriptors[1])
        )
    return found


def _preference_parts(preferred: Mapping[str, str], names: frozenset[str] | None) -> dict[str, str]:
    if not preferred:
        return {"%PREFER%": "", "%UNDO%": ""}
    words = {name: quote(f"{name}={value}") for name, value in preferred.items()}
    temporary = words.pop("TMPDIR", "")
    if names is None:
        loop = _PREFER_SCRIPT.replace("%PREFERRED%", " ".join(words.values()))
        return {
            "%PREFER%": loop.replace("%TMPDIR%", temporary),
            "%UNDO%": _UNDO_PREFERENCE_SCRIPT,
        }
    own = {name: word for name, word in words.items() if name not in names}
    prefer = f"builtin export {' '.join(own.values())} {temporary}"
    undo = f"builtin unset -v {' '.join(own)} TMPDIR"
    if "TMPDIR" in names:
        prefer = f"__hermes_temporary=$TMPDIR\n{prefer}"
        undo += "\nbuiltin export TMPDIR=$__hermes_temporary"
    return {"%PREFER%": prefer, "%UNDO%": undo}


def _fill(script: str, parts: Mapping[str, str]) -> str:
    for name, text in parts.items():
        script = script.replace(name, text)
    return "\n".join(line.strip() for line in script.splitlines() if line.strip())


class ShellLaunch(Value, frozen=True):
    """A program to start in an environment, and the variables to add for it."""

    argv: tuple[str, ...]
    variables: dict[str, str]

    @property
    def words(self) -> list[str]:
        """Both as one argv, for environments that take no variables."""
        return ["env", *(f"{name}={value}" for name, value in self.variables.items()), *self.argv]


class SessionShell(Value, frozen=True):
    """The shell of one session in an environment: `folder` has its state, and is created when
    needed."""

    folder: str
    start: str
    """The first working folder, absolute."""
    bash: str = "bash"

    def launch(
        self,
        command: str,
        *,
        tree: str,
        cwd: str = "",
        exit_file: str = "",
        tty: str = "",
        descriptors: tuple[int, int] | None = None,
        preferred: Mapping[str, str] | None = None,
        names: frozenset[str] | None = None,
    ) -> ShellLaunch:
        """Return how to run `command`, marked as `tree`. With `exit_file`, its exit code is written
        there and the state is not changed: a background process is not the session's shell.

        A caller on the same machine may keep the state itself: `descriptors` are then two open
        files, one with the state and one for the new state, in the form of `ShellState`.
        `preferred` are variables for this command only; the session's own values take
        precedence, except for TMPDIR. `names` are the variables of the session, from a caller that
        knows them: its state then also unsets those that the session has not.
        """
        check_argument(command)
        check_argument(cwd)
        given = {"HERMES_START": self.start, "HERMES_COMMAND": command}
        folder = self.folder if descriptors is None else ""
        optional = {
            "HERMES_FOLDER": folder,
            "HERMES_CWD": cwd,
            "HERMES_EXIT": exit_file,
            "HERMES_TTY": tty,
        }
        given |= {name: value for name, value in optional.items() if value}
        preferences = tuple((preferred or {}).items())
        prelude = _prelude(tuple(given), descriptors, preferences, names)
        variables = {"HERMES_PRELUDE": prelude, **given, TREE_VARIABLE: tree}
        script = _RUN_SCRIPT % (f" {descriptors[1]}>&-" if descriptors else "")
        return ShellLaunch((self.bash, "-c", script, "bash"), variables)


def check_argument(text: str) -> None:
    """Raises `ToolError` for text that cannot be an argument of a program."""
    if "\0" in text:
        raise ToolError("a command cannot contain a NUL byte; write such data to a file first")
    try:
        text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise ToolError(f"the command is not valid text: {error.reason}") from error


def new_tree_mark() -> str:
    return secrets.token_hex(8)


def folder_in_state(state: bytes) -> str | None:
    """The working folder in a state; None when the state is incomplete."""
    _, mark, folder = state.rpartition(FOLDER_MARK)
    return folder.decode("utf-8", "surrogateescape") if mark else None
