"""Small bash programs that run on another host. They are sent as input, invisible to `ps`.

A channel (`remote.channels`) is a bash that reports that it is ready, reads one of these programs
and runs it. The exit message follows the output after a secret mark: so the exit code and the
errors of the client program are never mistaken for those of the command. Everything is ASCII, so
that numbers of characters and bytes are equal in every locale.
"""

from collections.abc import Mapping
from functools import cache

from hermes.core.messages import Value
from hermes.environments.shell import FOLDER_MARK, ShellLaunch

CHANNEL_SHELL_NAME, PROCESS_SHELL_NAME = "hermes-line", "hermes-process"
"""Process names of our shells on the host; a container runs as long as there is one."""

READY_MARK = b"\0hermes:ready:"

WAIT_FOR_PROGRAM_ARGV = (
    "bash", "--norc", "-c",
    r"""printf '\0hermes:ready:%s\n' $$; read -r n && read -rN "$n" s && eval "$s" """,
    CHANNEL_SHELL_NAME,
)  # fmt: skip

ScriptVariables = Mapping[str, str | int]

_ESCAPES = {byte: f"\\x{byte:02x}" for byte in (*range(32), *range(127, 256))}
_ESCAPES |= {ord("\n"): "\n", ord("\t"): "\t", ord("'"): "\\'", ord("\\"): "\\\\"}


def quote_word(text: str) -> str:
    """The text quoted as one word of bash, in ASCII."""
    if text.isalnum() and text.isascii():
        return text
    return f"$'{text.encode('utf-8', 'surrogateescape').decode('latin-1').translate(_ESCAPES)}'"


@cache
def _quoted_once(text: str) -> str:
    return quote_word(text)


def end_mark(nonce: str) -> bytes:
    return f"\0hermes:{nonce}:".encode()


def build_program(
    body: str, nonce: str, words: ScriptVariables | None = None, *, quiet: bool = False
) -> str:
    """`body` is the body of a function; its exit message is `$word`, or else its return code."""
    given = " ".join(f"{name}={quote_word(str(value))}" for name, value in (words or {}).items())
    call = "main" if quiet else "main 2>&1"
    return (
        f"{given}\nmain() {{\n{body}\n}}\n{call}\n"
        f"builtin printf '\\0hermes:{nonce}:%s\\n' \"${{word-$?}}\"\n"
    )


class RemoteShellStart(Value, frozen=True):
    """How a shell of the session is started on the host."""

    launch: ShellLaunch
    via: str = ""
    """The quoted argv of the program that confines the shell and then executes it."""
    words: dict[str, str | int] = {}
    """Variables of `TAKE_STATE_SCRIPT` if the state comes through a descriptor; else empty."""

    @property
    def variables(self) -> str:
        """The variables of the launch, as assignments before the command."""
        return " ".join(
            f"{name}={_quoted_once(value) if name == 'HERMES_PRELUDE' else quote_word(value)}"
            for name, value in self.launch.variables.items()
        )

    @property
    def text(self) -> str:
        """The command of the session's shell, quoted."""
        return _quoted_once(self.launch.argv[2])

    @property
    def state(self) -> str:
        """The redirection that passes the state."""
        return f'{STATE_IN_DESCRIPTOR}<<<"$state"' if self.words else ""

    @property
    def before(self) -> str:
        """The script that runs before."""
        return TAKE_STATE_SCRIPT if self.words else ""

    @property
    def inner(self) -> str:
        """The argv of the session's shell."""
        return f'{self.variables} {self.via} "$BASH" --norc -c {self.text} bash {self.state}'


STATE_IN_DESCRIPTOR, STATE_OUT_DESCRIPTOR = 186, 187
"""Descriptors of a shell for the state before and after its command."""

TAKE_STATE_SCRIPT = r"""
state=$given
if [[ -z $state ]]; then
  parts=(); mapfile -d '' -t parts < "$home/$from"
  if ((${#parts[@]} > 1)); then parts=("${parts[@]:1}"); fi
  builtin printf -v state %s "${parts[@]}"
fi 2>/dev/null
"""

_RUN_AND_KEEP_SCRIPT = r"""
if [[ ! -r $home/launcher ]]; then word=uninstalled; return; fi
new=$home/new.$tree
: > "$new" || new=/dev/null
%s 187<>"$new" 2>&1
word=$?
parts=() at=; mapfile -d '' -t parts < "$new"
if ((${#parts[@]} == 5)); then
  at=${parts[4]##*"$follows"}
  mv -f -- "$new" "$home/$into"
elif [[ $new != /dev/null ]]; then rm -f -- "$new"; fi
at=${at//\\/\\\\}
report=$home/report.$tree
"""

ADD_REPORT_SCRIPT = r"""
seen=-
if [[ -s $report ]]; then
  seen=$(base64 < "$report") seen=${seen//$'\n'/}
  rm -f -- "$report"
fi 2>/dev/null
word="$word $seen"
"""
"""Adds what the kernel refused to the exit message."""

_ADD_FOLDER_SCRIPT = r"""
word="$word ${at//$'\n'/\\n}/"
"""


def keep_state_script(start: RemoteShellStart) -> str:
    """Runs a command with the session's state and saves its new state."""
    return (
        start.before + _RUN_AND_KEEP_SCRIPT % start.inner + ADD_REPORT_SCRIPT + _ADD_FOLDER_SCRIPT
    )


READ_STATES_SCRIPT = r"""
builtin printf '%s ' "$(wc -c < "$home/free")"
cat -- "$home/free" "$home/held"
"""
"""Prints the states of the last unconfined and the last confined command."""


KEEP_LONG_COMMAND_SCRIPT = r"""
[[ -d ${script%/*} ]] || mkdir -p -m 700 -- "${script%/*}"
builtin printf %s "$long" >| "$script" || return 126
"""
"""A command that is too long for a variable is read from a file."""

# Removes the state of aborted sessions after a week.
HELLO_SCRIPT = r"""
case $wanted in '~'|'~/'*) wanted=$HOME${wanted:1} ;; esac
if [[ -n $wanted ]] && ! cd -- "$wanted"; then return 1; fi
[[ $PWD == /* ]] || cd /
there=${TMPDIR:-/tmp} folder=${TMPDIR:-/tmp}/.hermes-$id
find "$there/" -maxdepth 1 \( -name '.hermes-????????????????' \
  -o -name 'hermes-tmp-????????????????' \) -user "$UID" -mtime +7 -exec rm -rf -- {} + 2>/dev/null
mkdir -m 700 -- "$folder" || return 2
builtin printf '%s\0%s' "$folder" "$PWD"
"""

NAP_FUNCTION = r"""
nap() {
  builtin printf -v moment '%d.%03d' $(($1 / 1000)) $(($1 % 1000))
  IFS= read -r -t "$moment" _
  (($? > 128)) || sleep "$moment"
}
"""
# Sleeps by reading from a silent input, without starting a process: the limit of processes may
# be reached.

_TREE_FUNCTIONS = r"""
look() {
  local path pid stat again
  found=() parents=() mine=()
  [[ $keep == 0 ]] || mine[keep]=1
  for path in /proc/[0-9]*; do
    pid=${path#/proc/}
    [[ $pid == "$$" ]] && continue
    stat=; IFS= read -r -d '' stat < "$path/stat"
    [[ -n $stat ]] || continue
    set -- ${stat##*) }
    [[ $1 == [ZX] ]] && continue
    parents[pid]=$2
    variables=(); mapfile -d '' -t variables < "$path/environ"
    if [[ $keep != 0 && ( $3 == "$keep" || $4 == "$keep" ) ]] ||
      [[ " ${variables[*]} " == *" HERMES_TREE=$mark "* ]]; then mine[pid]=1; fi
  done
  again=1
  while ((again)); do
    again=0
    for pid in "${!parents[@]}"; do
      [[ -z ${mine[pid]} && -n ${mine[parents[pid]]} ]] && mine[pid]=1 again=1
    done
  done
  for pid in "${!mine[@]}"; do
    [[ $pid == "$keep" || -z ${parents[pid]} ]] || found+=("$pid")
  done
}
send() { local pid; for pid in "${found[@]}"; do kill -s "$1" "$pid"; done; }
ours() {
  local word words=(); mapfile -d '' -t words < "/proc/$1/cmdline"
  for word in "${words[@]}"; do [[ $word == hermes-@(line|process) ]] && return 0; done
  return 1
}
"""

END_TREE_SCRIPT = (
    NAP_FUNCTION
    + _TREE_FUNCTIONS
    + r"""
{
  ours "$keep" || keep=0
  [[ -z $hard || $keep == 0 ]] || kill -s KILL "$keep"
  asked=() pause=5
  while ((grace > 0)); do
    look
    ((${#found[@]})) || break
    for pid in "${found[@]}"; do
      [[ -n ${asked[pid]} ]] || { kill -s TERM "$pid"; kill -s CONT "$pid"; asked[pid]=1; }
    done
    nap $pause
    ((grace -= pause, pause = pause > 50 ? 100 : 2 * pause))
  done
  for round in {1..50}; do
    look
    ((${#found[@]})) || break
    send KILL
    nap 10
  done
  for round in {1..20}; do
    [[ $keep != 0 ]] && ours "$keep" || break
    nap 50
  done
  [[ $keep == 0 ]] || ! ours "$keep" || kill -s KILL "$keep"
} 2>/dev/null
return 0
"""
)
"""Ends a tree: its leader `keep` is ended last, so that it can report the exit code."""

_RESOLVE_PATH_FUNCTION = r"""
place() {
  local state from=$start
  case $path in '~'|'~/'*) path=$HOME${path:1} ;; esac
  [[ $path == /* ]] && return
  if [[ -r $folder/state ]]; then
    { state=$(cat -- "$folder/state"; builtin printf x); } 2>/dev/null
    state=${state%x}
    [[ $state == *"$follows"* ]] && from=${state##*"$follows"}
  fi
  path=${from%/}/$path
}
no() { builtin printf %s "$1"; }
odd() {
  if [[ -d $path ]]; then no 'it is a folder, not a file'; return 0; fi
  [[ -e $path && ! -f $path ]] && no 'it is a device or pipe, not a file'
}
"""

FETCH_SCRIPT = (
    _RESOLVE_PATH_FUNCTION
    + r"""
place
odd && return 1
[[ -e $path ]] || { no 'there is no such file'; return 1; }
[[ -r $path ]] || { no 'permission denied'; return 1; }
if [[ -n $limit ]]; then tail -c "+$((offset + 1))" -- "$path" | head -c "$limit"
elif ((offset)); then tail -c "+$((offset + 1))" -- "$path"
else cat -- "$path"; fi
"""
)

# The size is checked, because a broken connection looks like the end of the data.
REPLACE_SCRIPT = (
    _RESOLVE_PATH_FUNCTION
    + r"""
place
if [[ -L $path ]]; then path=$(readlink -f -- "$path"; builtin printf x) path=${path%$'\n'x}; fi
odd && return 1
[[ $path == */ ]] && { no 'that names a folder'; return 1; }
into=${path%/*}/ new=${path%/*}/.hermes-$id
said=$(mkdir -p -- "$into" 2>&1) || { no "${said##*: }"; return 1; }
said=$({ cat > "$new"; } 2>&1) || { rm -f -- "$new"; no "${said##*: }"; return 1; }
if [[ -e $path ]]; then
  chown "$(stat -c %u:%g -- "$path")" -- "$new" 2>/dev/null
  chmod "$(stat -c %a -- "$path")" -- "$new"
fi
(($(wc -c < "$new") == size)) || { rm -f -- "$new"; no 'not all of it arrived'; return 1; }
sync -- "$new" 2>/dev/null
said=$(mv -f -- "$new" "$path" 2>&1) || { rm -f -- "$new"; no "${said##*: }"; return 1; }
"""
)

FOLDER_MARK_TEXT = FOLDER_MARK.decode()
