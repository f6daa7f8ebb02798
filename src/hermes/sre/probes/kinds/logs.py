"""Shell commands that probe logs; they read only new lines, so the size does not matter."""

import re
from shlex import quote

from hermes.core.errors import SettingsError
from hermes.sre.probes.probe import Probe

JOURNAL_PREFIX = "journal:"
ERROR_WORDS = (
    *("error", "fatal", "critical", "panic", "traceback", "exception", "severe", "unhandled"),
    *("no space left", "out of memory", "segfault", "segmentation fault", "core dumped"),
    *("[e]", "|e|", "[err]", "|err|", " err ", "level=err"),
)
"""Also levels as logs of one's own have them."""
ERROR_PATTERN = "|".join(map(re.escape, ERROR_WORDS)).replace(r"\ ", " ")
NO_ERROR_PATTERN = (
    r"\b0 (errors|exceptions)\b|\bno errors\b|\b(errors?|exceptions?)(=0|: 0)( |,|;|\||$)"
)
"""Counts of errors that tell that there is none."""
MAX_READ_BYTES = 4_000_000
"""Bytes of one run; of more than that only the end is read."""

_FILE = r"""
i=$(stat -Lc '%i %s' -- "$f" 2>/dev/null) && [ -r "$f" ] || { echo "$f cannot be read"; exit 3; }
ino=${i% *}; size=${i#* }; now=$(date +%s)
IFS=: read -r was at then <<< "$before"
first() {
  awk -v at="$1" -v size="$2" 'BEGIN { if (size - at > MOST) at = size - MOST; print at + 1 }'
}
new() { tail -c +"$2" -- "$1" 2>/dev/null | tail -c MOST; }
if [ -z "$was" ]; then at=$size; then=$now; was=$ino; fi
old=
if [ "$was" != "$ino" ]; then
  [ "$(stat -Lc %i -- "$f.1" 2>/dev/null)" = "$was" ] &&
    old=$(new "$f.1" "$(first "$at" 0)" | count)
  at=0
elif [ "$size" -lt "$at" ]; then at=0
fi
told="0 "; [ "$size" = "$at" ] || told=$(new "$f" "$(first "$at" "$size")" | count)
"""
_JOURNAL = r"""
now=$(date +%s); ino=journal; size=0; old=
IFS=: read -r was at then <<< "$before"
[ -n "$then" ] || then=$now
since=$(date -d "@$then" '+%Y-%m-%d %H:%M:%S')
told=$(journalctl -u "$f" --since "$since" -n 5000 -o cat -q --no-pager 2>/dev/null | count)
"""
_COUNT = r"""
count() {
  grep -aiE -m 5000 -- "$pattern" | grep -aivE -- "$none" | cut -c 1-300 |
    awk '{ n++; l = $0 } END { print n + 0, l }'
}
"""
_RATE = r"""
last=${told#* }; [ -n "$last" ] || last=${old#* }
printf 'keep=%s:%s:%s\n' "$ino" "$size" "$now"
awk -v n="${told%% *}" -v o="${old%% *}" -v now="$now" -v then="$then" -v limit="$limit" -v f="$f" '
  BEGIN { n += o; d = now - then; if (d < 1) d = 1
    if (n == 0) { printf "value=0 new lines of %s report errors\n", f; exit 0 }
    r = 60 * n / d
    printf "value=%.1f lines a minute of %s report errors\n", r, f
    exit r >= limit }' || { printf '%s\n' "$last"; exit 1; }
"""
_ANSWERS = r"""
awk '
  match($0, /(GET|POST|PUT|DELETE|PATCH|HEAD) [^ ]+/) {
    split(substr($0, RSTART, RLENGTH), w, " "); r = substr($0, RSTART + RLENGTH)
    p = w[2]; sub(/[?].*/, "", p)
    if (match(r, /[^0-9.][1-5][0-9][0-9]([^0-9.]|$)/)) { s = substr(r, RSTART + 1, 3); n++
      if (s >= 500 && /hermes-probe/) next
      if (s >= 500 || s == 429) { run[p]++; say[p] = s } else run[p] = 0 } }
  END { for (p in run) if (run[p] >= 2) { bad++
      printf "the last %d answers for %s were bad: %s\n", run[p], substr(p, 1, 80), say[p] }
    printf "value=%d paths of %d recent answers fail\n", bad, n; exit bad > 0 }'
"""


def log_command(probe: Probe, before: str | None) -> str:
    """`before`: empty for the first of many runs; None for a single run, which waits a moment for
    new lines."""
    pattern = probe.pattern or ERROR_PATTERN
    limit = 10.0 if probe.limit is None else probe.limit
    where, body = _log_source(probe)
    none = quote(NO_ERROR_PATTERN) if pattern == ERROR_PATTERN else "'^$'"
    head = f"f={where} pattern={quote(pattern)} none={none} limit={limit:g}"
    head = f"{head} before={quote(before or '')}\n"
    if before is None:
        wait = _JOURNAL_START if body is _JOURNAL else _FILE_START
        head = f"{head}{wait}sleep 2\n"
    return f"{head}{_COUNT}{body.replace('MOST', str(MAX_READ_BYTES))}{_RATE}"


_FILE_START = 'before="$(stat -Lc %i:%s -- "$f" 2>/dev/null):$(date +%s)"\n'
_JOURNAL_START = 'before="journal:0:$(date +%s)"\n'


def answers_command(probe: Probe, before: str | None) -> str:
    """Reads the answers to recent requests from the log of a service."""
    where, body = _log_source(probe)
    if body is _JOURNAL:
        lines = f"journalctl -u {where} --since '-15s' -n 200 -o cat -q --no-pager 2>/dev/null"
        return f"{lines} | cut -c 1-500 | {_ANSWERS.lstrip()}"
    fresh = f"f={where}\n" + '[ -r "$f" ] || { echo "$f cannot be read"; exit 3; }\n'
    fresh += 'now=$(date +%s); then=$(stat -Lc %Y -- "$f")\n'
    fresh += """awk -v now="$now" -v then="$then" 'BEGIN { exit now - then > 15 }' || {
  echo "no recent requests"; exit 0; }\n"""
    return f'{fresh}tail -c 65536 -- "$f" | tail -n 200 | cut -c 1-500 | {_ANSWERS.lstrip()}'


def _log_source(probe: Probe) -> tuple[str, str]:
    if not probe.what:
        raise SettingsError(f"{probe.name}: which log? Give a path, or journal:UNIT, as `what`")
    if probe.what.startswith(JOURNAL_PREFIX):
        return quote(probe.what.removeprefix(JOURNAL_PREFIX)), _JOURNAL
    return quote(probe.what), _FILE
