"""Shell commands that warn before an outage: invalid configuration, failed reload, free space."""

import re
from shlex import quote

from hermes.core.errors import SettingsError
from hermes.sre.probes.probe import Probe

CONFIG_RECHECK_S = 600
"""Seconds after which an unchanged configuration is checked again."""
CONFIG_EDIT_GRACE_S = 20
"""Seconds after the last write for which a file is not checked: it may be incomplete."""

_CONFIG = r"""
IFS=: read -r code then sum said <<< "$before"
now=$(date +%s)
list=$(find -L $files -maxdepth 4 -type f -printf '%T@ %s %p\n' 2>/dev/null |
  sort -n | tail -n 2000)
[ -n "$list" ] || { echo "the configuration of $name cannot be read"; exit 3; }
new=$(printf '%s' "$list" | cksum); new=${new%% *}
last=${list##*$'\n'}
again() { printf 'keep=%s\n' "$before"; [ -z "$said" ] || printf '%s\n' "$said"; exit "$code"; }
within() { awk -v now="$now" -v at="$1" -v s="$2" 'BEGIN { exit !(now - at < s) }'; }
if [ -n "$code" ]; then
  within "${last%% *}" EDIT && again
  [ "$sum" = "$new" ] && within "$then" EVERY && again
fi
o=$(check 2>&1 </dev/null); c=$?
first() {
  printf '%s\n' "$o" | tr -d '\r' |
    sed -E 's|^[0-9]{4}[-/][0-9/-]+ [0-9:.]+ ([A-Z]+ )?\[[^]]*\] ([0-9]+#[0-9]+: )?||
      s|^nginx: \[[a-z]+\] ||' |
    grep -vE '^ *$|parsed OK|test failed|contains errors|skipping missing|^\[NOTICE' |
    head -n 2 | paste -sd ' ' | cut -c 1-300
}
case $c:$o in
  0:*) code=0 said="the configuration of $name is good" ;;
  127:*|*'ermission denied'*|*'no hostkeys available'*|*'privilege separation directory'*)
    echo "the configuration of $name cannot be checked: $(first)"; exit 3 ;;
  *) code=1 said="the configuration of $name would prevent its next start: $(first)" ;;
esac
if [ "$code" = 0 ] && o=$(reloaded 2>/dev/null) && [ -n "$o" ]; then
  code=1 said="the last reload of $name failed, it runs with an older configuration: $(first)"
fi
printf 'keep=%s:%s:%s:%s\n' "$code" "$now" "$new" "$said"
printf '%s\n' "$said"; exit "$code"
"""
# An error of the master that is newer than its newest worker: the reload failed.
_RELOADED = r"""
reloaded() {
  local m log line at c
  m=$(pgrep -o -f "nginx: master process.*$path") || return
  log=$(ls -l /proc/"$m"/fd | sed -n 's/.* -> \(.*error.*\)$/\1/p' | head -n 1)
  line=$(tail -c 65536 -- "$log" | grep -F "[emerg] $m#" | tail -n 1)
  [ -n "$line" ] || return
  at=$(date -d "${line:0:19}" +%s) || return
  for c in $(pgrep -P "$m"); do cat /proc/"$c"/stat; done |
    awk -v at="$at" -v line="$line" '
      BEGIN { while ((getline row < "/proc/stat") > 0)
        if (split(row, w, " ") && w[1] == "btime") boot = w[2] }
      { sub(/.*\) /, ""); split($0, w, " "); born = boot + int(w[20] / 100)
        if (born > newest) newest = born }
      END { if (at > newest + 1) print line }'
}
"""
_NGINX = """check() {
  local o c; o=$(nginx -e /dev/null -t -q ARGUMENTS 2>&1); c=$?
  case $o in *'invalid option: "e"'*) nginx -t -q ARGUMENTS; return ;; esac
  printf '%s' "$o"; return "$c"
}
"""
_CONFIG_CHECKS: dict[str, tuple[str, str, str]] = {
    # program: its files, how its file is named to it, and the check
    "nginx": ("/etc/nginx", "-c {}", _NGINX),
    "sshd": ("/etc/ssh", "-f {}", "check() { /usr/sbin/sshd -t ARGUMENTS; }\n"),
    "apache2": ("/etc/apache2", "-f {}", "check() { apache2ctl -t ARGUMENTS; }\n"),
    "httpd": ("/etc/httpd", "-f {}", "check() { apachectl -t ARGUMENTS; }\n"),
    "haproxy": ("/etc/haproxy", "-f {}", "check() { haproxy -c ARGUMENTS; }\n"),
    "named": ("/etc/bind", "{}", "check() { named-checkconf ARGUMENTS; }\n"),
    "sudo": ("/etc/sudoers /etc/sudoers.d", "-f {}", "check() { visudo -c ARGUMENTS; }\n"),
    "postgres": ("", "-D {}", "check() { PROGRAM -C config_file ARGUMENTS; }\n"),
}
CONFIG_PROGRAMS = tuple(_CONFIG_CHECKS)
_FORECAST = r"""
d=$(df -P -- "$p" 2>&1) || { echo "$p cannot be read: ${d##*: }"; exit 3; }
printf '%s\n' "$d" | awk -v p="$p" 'NR == 2 { printf "value=%d kB of %s are free\n", $4, p }'
"""


def config_command(probe: Probe, before: str | None) -> str:
    """`what`: a program, or `program:path` of its configuration (PostgreSQL: of its data).

    Programs: see `CONFIG_PROGRAMS`. Raises `SettingsError` for others.
    """
    name, _, path = probe.what.partition(":")
    if name not in _CONFIG_CHECKS or not re.fullmatch(r"(/[\w./@+-]+)?", path):
        raise SettingsError(
            f"{probe.name}: {probe.what!r} cannot be checked; write one of "
            f"{', '.join(CONFIG_PROGRAMS)}, or such a name, a colon and the path of its file"
        )
    files, named, check = _CONFIG_CHECKS[name]
    given = named.format(quote(path)) if path else ""
    if path and name == "haproxy":
        files = path
    elif path:
        files = path.rpartition("/")[0] if name != "postgres" else f"{path}/postgresql.conf"
    if name == "haproxy" and not path:
        given = "-f /etc/haproxy/haproxy.cfg"
    if file := probe.labels.get("config_file", ""):
        given, files = f"{given} -c config_file={quote(file)}", quote(file)
    check = check.replace("PROGRAM", quote(probe.labels.get("program", "") or name))
    head = f"name={name} path={quote(path)} files={quote(files)} before={quote(before or '')}\n"
    head += check.replace("ARGUMENTS", given)
    head += _RELOADED if name == "nginx" else "reloaded() { :; }\n"
    body = _CONFIG.replace("EVERY", str(CONFIG_RECHECK_S)).replace("EDIT", str(CONFIG_EDIT_GRACE_S))
    return f"PATH=$PATH:/usr/sbin:/sbin\n{head}{body}"


def forecast_command(probe: Probe, before: str | None) -> str:
    """Prints the free space; the forecast is computed from many results."""
    return f"p={quote(probe.what or '/')}{_FORECAST}"
