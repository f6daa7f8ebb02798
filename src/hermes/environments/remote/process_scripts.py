"""The far side of background processes: how they are started, followed, fed and looked for.

A process has a folder of its own there: it prints to `log`, reads from the named pipe `in` that it
holds open itself, and the shell around it writes down its number and its exit code. So nothing
breaks when a connection does, or when we die.
"""

from hermes.environments.remote.scripts import ADD_REPORT, NAP, PROCESS, Start

WINDOW = 204_800
"""Bytes of output that stay for another reader."""
LONGEST_LOG = 8 * 1024 * 1024

# Killed by a signal, the command must not have this shell's remark about it in its log.
WRAP = (
    r"""
folder=$1 run=$2 stat= report=$1/report; shift 2; via=("$@")
exec 3>&2 2>/dev/null
IFS= read -r -d '' stat < /proc/$$/stat
set -- ${stat##*) }
builtin printf '%s %s\n' $$ "${20:-0}" > "$folder/pid"
"${via[@]}" "$BASH" --norc -c "$run" bash 2>&3 3>&-
word=$?
"""
    + ADD_REPORT
    + r"""
builtin printf '%s\n' "$word" > "$folder/exit"
"""
)


def start(of: Start) -> str:
    """With job control on, what runs in the background is not deaf to interrupts."""
    return (
        NAP
        + of.before
        + rf"""
mkdir -m 700 -- "$folder" && mkfifo -m 600 -- "$folder/in" && : > "$folder/log" || return 1
[[ -z $long ]] || builtin printf %s "$long" > "$folder/command" || return 1
set -m
{of.variables} $(type -P setsid) "$BASH" --norc -c "$wrap" {PROCESS} "$folder" {of.text} {of.via} \
  {of.state} <> "$folder/in" >> "$folder/log" 2>&1 &
for round in {{1..500}}; do
  [[ -s $folder/pid ]] && read -r told < "$folder/pid" && break
  nap 2
done
builtin printf %s "$told"
"""
    )


_ALIVE = r"""
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

# Whether there is news is seen from the time of the last change, which costs no process. That
# clock ticks slowly: what was written in the tick in which we looked is fetched one look later, and
# where it ticks in seconds, at the latest after sixteen looks. A log is shortened by punching a
# hole, which loses nothing; where that cannot be, by emptying it in silence, or when far too long.
FOLLOW = (
    NAP
    + _ALIVE
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

AWAIT = (
    NAP
    + _ALIVE
    + r"""
while alive; do nap 50; done
told
"""
)

LOOK = (
    _ALIVE
    + r"""
[[ -d $folder ]] || return 1
if alive; then return 0; fi
[[ -s $folder/log || -s $folder/exit ]] && return 2
return 1
"""
)
"""0: it runs; 2: it ended and left its last words; 1: there is nothing."""

FEED = (
    _ALIVE
    + r"""
alive && [[ -p $folder/in ]] || return 1
cat > "$folder/in"
"""
)

FORGET = 'rm -rf -- "$folder"'
