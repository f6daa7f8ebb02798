"""Tells whether a place is still wanted: somebody of ours is in it (`remote.scripts.LINE`,
`.PROCESS`). So a place that we lost sight of can end by itself, or be ended by whoever comes."""

from hermes.environments.remote.scripts import LINE, PROCESS

# Whole words only: the text of a script like this one is a word of some process, too.
_BUSY = rf"""
busy() {{
  local path word words
  for path in /proc/[0-9]*; do
    words=(); mapfile -d '' -t words < "$path/cmdline"
    for word in "${{words[@]}}"; do
      [[ $word == {LINE} || $word == {PROCESS} ]] && return 0
    done
  done 2>/dev/null
  return 1
}}
"""

BUSY = f"{_BUSY}busy"
"""Ends well when somebody is there."""

# Reading from a silent pipe is how bash sleeps without starting a process: where no more can be
# started, the place must not end for that.
KEEP = (
    _BUSY
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
"""The first process of a place, which it also buries the orphans for: ends when, looking every `$1`
seconds, it saw nobody three times in a row."""
