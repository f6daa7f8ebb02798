"""Bash programs that start, follow and find background processes on another host.

They also check whether a container is still in use: whether a shell of Hermes runs in it
(`CHANNEL_SHELL_NAME`, `PROCESS_SHELL_NAME`). So one that Hermes lost can end itself.
"""

from hermes.environments.remote.scripts import (
    ADD_REPORT_SCRIPT,
    CHANNEL_SHELL_NAME,
    NAP_FUNCTION,
    PROCESS_SHELL_NAME,
    RemoteShellStart,
)

# Whole arguments only: the text of this script is an argument of some process, too.
_BUSY_FUNCTION = rf"""
busy() {{
  local path word words
  for path in /proc/[0-9]*; do
    words=(); mapfile -d '' -t words < "$path/cmdline"
    for word in "${{words[@]}}"; do
      [[ $word == {CHANNEL_SHELL_NAME} || $word == {PROCESS_SHELL_NAME} ]] && return 0
    done
  done 2>/dev/null
  return 1
}}
"""

BUSY_SCRIPT = f"{_BUSY_FUNCTION}busy"
"""Succeeds when a shell of Hermes runs there."""

# Bash sleeps by reading from a silent pipe, without starting a process: the limit of processes
# may be reached.
KEEP_ALIVE_SCRIPT = (
    _BUSY_FUNCTION
    + r"""
trap 'exit 0' TERM
exec 9<> <(:)
alone=0
while ((alone < 3)); do
  read -rt "$1" -u 9
  if busy; then alone=0; else alone=$((alone + 1)); fi
done
"""
)
"""The first process of a container, which also reaps orphans. It checks every `$1` seconds, and
ends after three checks in a row without a shell of Hermes."""


OUTPUT_WINDOW_BYTES = 204_800
"""Bytes of output that are kept for another reader."""
MAX_LOG_BYTES = 8 * 1024 * 1024

# The message of this shell about a killed command must not get into the log.
WRAP_SCRIPT = (
    r"""
folder=$1 run=$2 stat= report=$1/report; shift 2; via=("$@")
exec 3>&2 2>/dev/null
IFS= read -r -d '' stat < /proc/$$/stat
set -- ${stat##*) }
builtin printf '%s %s\n' $$ "${20:-0}" > "$folder/pid"
"${via[@]}" "$BASH" --norc -c "$run" bash 2>&3 3>&-
word=$?
"""
    + ADD_REPORT_SCRIPT
    + r"""
builtin printf '%s\n' "$word" > "$folder/exit"
"""
)


def start_script(of: RemoteShellStart) -> str:
    """With job control, a background process does not ignore interrupts."""
    return (
        NAP_FUNCTION
        + of.before
        + rf"""
mkdir -m 700 -- "$folder" && mkfifo -m 600 -- "$folder/in" && : > "$folder/log" || return 1
[[ -z $long ]] || builtin printf %s "$long" > "$folder/command" || return 1
set -m
{of.variables} $(type -P setsid) "$BASH" --norc -c "$wrap" {PROCESS_SHELL_NAME} "$folder" \
  {of.text} {of.via} {of.state} <> "$folder/in" >> "$folder/log" 2>&1 &
for round in {{1..500}}; do
  [[ -s $folder/pid ]] && read -r told < "$folder/pid" && break
  nap 2
done
builtin printf %s "$told"
"""
    )


_ALIVE_FUNCTION = r"""
alive() {
  local stat=
  if [[ ! -d /proc/self ]]; then kill -0 "$pid"; return; fi
  IFS= read -r -d '' stat < "/proc/$pid/stat"
  set -- ${stat##*) }
  [[ -n $1 && $1 != [ZX] && ${20} == "$born" ]]
} 2>/dev/null
told() {
  word=lost
  if [[ -s $folder/exit ]]; then read -r word < "$folder/exit"; fi
}
"""

# New output is detected by the modification time, which needs no process. That clock is coarse:
# what was written in the same tick as the last check is read one check later, and where the clock
# ticks in seconds, after at most sixteen checks. A log is shortened by punching a hole, which loses
# nothing; where that is impossible, by truncating it while it is quiet, or when it is far too long.
FOLLOW_SCRIPT = (
    NAP_FUNCTION
    + _ALIVE_FUNCTION
    + r"""
trim() {
  local position
  read -r _ position < "/proc/$$/fdinfo/9" || return
  ((position - freed > limit)) || return
  if [[ -n $punches ]]; then
    fallocate -p -o 0 -l $((position - window)) "$folder/log" && freed=$position || punches=
  elif [[ -n $1 ]] || ((position > 8 * limit)); then
    : > "$folder/log"
    exec 9< "$folder/log"
  fi
} 2>/dev/null
seen=$folder/seen.$$ pause=10 again= freed=0 quiet=0 punches=1
[[ -r $folder/log ]] || { word=lost; return; }
exec 9< "$folder/log"
size=$(wc -c < "$folder/log")
((position < 0)) && position=$((size > window ? size - window : 0))
((position > size)) && position=0
((position == 0)) || dd bs=1 skip="$position" count=0 <&9 2>/dev/null
while :; do
  ended=; alive || ended=1
  if [[ $folder/log -nt $seen ]]; then
    : > "$seen"
    cat <&9
    again=1 pause=10 quiet=0
    trim
  elif [[ -n $again ]] || ((++quiet % 16 == 0)); then
    again=
    cat <&9
    trim silence
  fi
  if [[ -n $ended ]]; then cat <&9; break; fi
  builtin printf -v moment '0.%03d' $pause
  IFS= read -r -t "$moment" _
  (($? > 128)) || break
  ((pause = pause > 100 ? 200 : 2 * pause))
done 2>/dev/null
rm -f -- "$seen"
told
"""
)

AWAIT_SCRIPT = (
    NAP_FUNCTION
    + _ALIVE_FUNCTION
    + r"""
while alive; do nap 50; done
told
"""
)

PROBE_SCRIPT = (
    _ALIVE_FUNCTION
    + r"""
[[ -d $folder ]] || return 1
if alive; then return 0; fi
[[ -s $folder/log || -s $folder/exit ]] && return 2
return 1
"""
)
"""0: it runs; 2: it ended and its output is there; 1: there is nothing."""

FEED_SCRIPT = (
    _ALIVE_FUNCTION
    + r"""
alive && [[ -p $folder/in ]] || return 1
cat > "$folder/in"
"""
)

FORGET_SCRIPT = 'rm -rf -- "$folder"'
