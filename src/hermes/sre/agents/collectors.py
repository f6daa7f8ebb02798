"""Looks that are the same for every incident: a small model starts from facts, not from guesses.

Each only reads, whatever the host has or lacks; a test has the gate say so of all of them.
"""

import re
from shlex import quote

from hermes.core.messages import Value
from hermes.sre.case import Case

NAME = re.compile(r"[A-Za-z0-9][\w@.:-]*")
UNITS = (
    "$(systemctl list-units --type=service --all --no-legend --plain --no-pager 2>/dev/null | "
    "sed 's/^[^A-Za-z0-9]*//' | awk '$1~/[.]service$/{print $1}' | head -n 40)"
)
BAD = (
    "error|fatal|crit|traceback|exception|panic|fail|refused|timed? ?out|denied|no space|cannot|"
    "could not|unreachable|expired|killed|oom|invalid|corrupt"
)
SECRETS = "password|passwd|secret|token|private"


class Collector(Value, frozen=True):
    layer: str
    name: str
    command: str


def collectors(case: Case, minutes: float) -> tuple[Collector, ...]:
    """Those that tell most come first: what has no room is left out from the end."""
    return (*_of_service(case.service), *_of_host(), *_of_changes(minutes))


def _of_service(service: str) -> tuple[Collector, ...]:
    errors = (
        f'for u in {UNITS}; do journalctl -u "$u" -n 200 -o cat --no-pager 2>/dev/null | '
        f"grep -iE '{BAD}' | tail -n 3 | cut -c1-240 | "
        'awk -v u="$u" \'{print u ": " $0}\'; done'
    )
    found = [Collector("service", "bad lines in the logs of all units", errors)]
    if not NAME.fullmatch(service):  # an alert brings it: never an option, never a command
        return tuple(found)
    unit = quote(service)
    settings = (
        f"for w in $(systemctl cat {unit} 2>/dev/null | "
        "sed -n 's/^ExecStart=[-@+!]*//p;s/^EnvironmentFile=-\\{0,1\\}//p'); do w=${w#*=}; "
        'case "$w" in /usr/*|/bin/*|*.py|*.sh|*.js) ;; /*) [ -f "$w" ] && echo "== $w" && '
        f"grep -viE '{SECRETS}' \"$w\" | head -n 40 | cut -c1-200;; esac; done"
    )
    return (
        Collector("service", "its log", f"journalctl -u {unit} -n 40 --no-pager | cut -c1-300"),
        Collector("service", "its state", f"systemctl status {unit} --no-pager -n 0"),
        Collector("service", "its unit", f"systemctl cat {unit} --no-pager"),
        Collector("service", "its settings", settings),
        *found,
        Collector(
            "service",
            "its log files",
            f"tail -q -n 20 /var/log/{unit}/*.log /var/log/{unit}.log 2>/dev/null | cut -c1-240",
        ),
    )


def _of_host() -> tuple[Collector, ...]:
    shown = "Id,ActiveState,SubState,Result,NRestarts,MainPID,ExecMainStatus"
    units = (
        f"for u in {UNITS}; do systemctl show -p {shown} \"$u\" 2>/dev/null | tr '\\n' ' '; "
        "echo; done"
    )
    busy = "ps -eo pid,ppid,user,stat,pcpu,rss,etimes,args --sort=-{} | cut -c1-150 | head -n {}"
    large = (
        "find /var /srv /opt /tmp /home -xdev -type f -size +10M -printf '%s %TY-%Tm-%Td %TH:%TM "
        "%p\\n' 2>/dev/null | sort -rn | head -n 12"
    )
    postgres = (
        'command -v psql >/dev/null && psql -w -h 127.0.0.1 -U postgres -Atc "select pid, state, '
        "wait_event_type, now() - xact_start, left(query, 90) from pg_stat_activity where state is "
        'not null order by xact_start nulls last limit 20"'
    )
    redis = "command -v redis-cli >/dev/null && redis-cli info memory | head -n 20"
    certificates = (
        "for c in $(find /etc /srv /opt -maxdepth 5 \\( -name '*.crt' -o -name '*cert*.pem' \\) "
        "-type f 2>/dev/null | grep -v /ssl/certs/ | head -n 12); do "
        'echo "$c"; openssl x509 -subject -enddate -noout -in "$c" 2>/dev/null; done'
    )
    return (
        Collector("processes", "units and their restarts", units),
        Collector("processes", "busiest processes", busy.format("pcpu", 12)),
        Collector("processes", "largest processes", busy.format("rss", 8)),
        Collector("processes", "memory", "free -m"),
        Collector("data", "disks", "df -hP; df -iP"),
        Collector("data", "large files", large),
        Collector(
            "data",
            "deleted files that are still open",
            "find /proc/[0-9]*/fd -lname '* (deleted)' -printf '%p %l\\n' 2>/dev/null | head -n 10",
        ),
        Collector(
            "data", "read-only mounts", "awk '$4 ~ /^ro/ {print $1, $2}' /proc/mounts | head -n 10"
        ),
        Collector("data", "postgres activity", postgres),
        Collector("data", "redis memory", redis),
        Collector("network", "who listens", "ss -ltnp"),
        Collector(
            "network", "connections by state", "ss -Htan | awk '{print $1}' | sort | uniq -c"
        ),
        Collector("network", "names", "cat /etc/hosts /etc/resolv.conf"),
        Collector("network", "addresses and routes", "ip -br addr; ip route"),
        Collector(
            "network",
            "firewall",
            "iptables -S 2>/dev/null; nft list ruleset 2>/dev/null | head -n 40",
        ),
        Collector("network", "certificates", certificates),
    )


def _of_changes(minutes: float) -> tuple[Collector, ...]:
    files = (
        "find /etc /opt /srv /usr/local -xdev -type f -mmin -{} -printf '%TY-%Tm-%Td %TH:%TM:%TS "
        "%u %p\\n' 2>/dev/null | grep -v /.git/ | sort -r | head -n 40"
    )
    checkouts = (
        "for d in $(find /srv /opt /etc /root /home -maxdepth 4 -name .git 2>/dev/null | "
        'head -n 6); do echo "== ${d%/.git}"; git -C "${d%/.git}" log -4 '
        "--format='%h %ai %an %s' 2>&1; "
        'git -C "${d%/.git}" status --short 2>&1 | head -n 12; done'
    )
    packages = "tail -q -n 12 /var/log/dpkg.log /var/log/apt/history.log 2>/dev/null"
    timetable = (
        "grep -HvE '^[[:space:]]*(#|$)' /etc/crontab /etc/cron.d/* "
        "2>/dev/null | head -n 30; systemctl list-timers --no-pager 2>/dev/null | head -n 15"
    )
    deploys = (
        "ls -ldt --time-style=full-iso /opt/*/releases/* /opt/*/current /srv/*/current "
        "/var/log/*deploy* /var/log/*change* 2>/dev/null | head -n 15; "
        "tail -q -n 10 /var/log/*deploy* /var/log/*change* 2>/dev/null | cut -c1-240"
    )
    return (
        Collector("changes", "files changed in the window", files.format(round(minutes))),
        Collector("changes", "checkouts", checkouts),
        Collector("changes", "deploys", deploys),
        Collector("changes", "timetables", timetable),
        Collector("changes", "packages", packages),
    )
