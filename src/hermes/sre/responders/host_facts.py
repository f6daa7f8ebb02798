"""Collects facts about the host with fixed read-only commands, before a model is called.

Each command only reads, on any host; a test checks that with the policy. References to evidence are
resolved here: each must be a call that was really run.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from shlex import quote

import anyio

from hermes.agent.dependencies import AgentDependencies, execute_for_run
from hermes.core.errors import ToolError
from hermes.core.foreign_text import clean_line, shorten_middle
from hermes.core.incident import IncidentDetails
from hermes.core.messages import ToolCall, ToolResult, Value
from hermes.core.protocols import Journal
from hermes.core.run_ids import new_id
from hermes.core.tool_calls import read_result_numbers
from hermes.policy.taint.data_marks import mark_as_data
from hermes.skills.playbook.commands import TERMINAL_TOOL
from hermes.skills.supervisors.units import listing_scripts
from hermes.sre.checks import TIMEOUT_GRACE_S, run_concurrently
from hermes.sre.cluster.faults import alert_namespace
from hermes.sre.cluster.queries import CLUSTER_LAYER, QUERIES, query_commands
from hermes.sre.escalation.host_scripts import script_command
from hermes.sre.reports.actions import IncidentAction, list_actions
from hermes.sre.settings import CrewSettings, KubernetesSettings
from hermes.sre.system_questions import (
    MAX_FINDING_CHARS,
    NOTHING_FOUND,
    Databases,
    system_questions,
)
from hermes.tools.executor import Executor

UNIT_NAME = re.compile(r"[A-Za-z0-9][\w@.:-]*")
LIST_UNITS = (
    "$(systemctl list-units --type=service --all --no-legend --plain --no-pager 2>/dev/null | "
    "sed 's/^[^A-Za-z0-9]*//' | awk '$1~/[.]service$/{print $1}' | head -n 40)"
)
ERROR_WORDS = (
    "error|fatal|crit|traceback|exception|panic|fail|refused|timed? ?out|denied|no space|cannot|"
    "could not|unreachable|expired|killed|oom|invalid|corrupt"
)
SECRET_WORDS = "password|passwd|secret|token|private"
EMPTY_OUTPUT = re.compile(r"\A\s*\[(no output|exit \d+ · [\d.]+ s|[\d.]+ s)\]\s*\Z")


class FactCollector(Value, frozen=True):
    layer: str
    name: str
    command: str
    """The command, or the question to a system in words."""
    tool: str = TERMINAL_TOOL
    arguments: Mapping[str, object] | None = None
    """Those of another tool than the terminal."""


def fact_collectors(details: IncidentDetails, minutes: float) -> tuple[FactCollector, ...]:
    """The most informative first: what does not fit is left out from the end."""
    return (
        *_service_collectors(details.service),
        *_host_collectors(),
        *_change_collectors(minutes),
    )


def _service_collectors(service: str) -> tuple[FactCollector, ...]:
    errors = (
        f'for u in {LIST_UNITS}; do journalctl -u "$u" -n 200 -o cat --no-pager 2>/dev/null | '
        f"grep -iE '{ERROR_WORDS}' | tail -n 3 | cut -c1-240 | "
        'awk -v u="$u" \'{print u ": " $0}\'; done'
    )
    found = [FactCollector("service", "bad lines in the logs of all units", errors)]
    # The name comes from an alert: it must not be an option or a command.
    if not UNIT_NAME.fullmatch(service):
        return tuple(found)
    unit = quote(service)
    settings = (
        f"for w in $(systemctl cat {unit} 2>/dev/null | "
        "sed -n 's/^ExecStart=[-@+!]*//p;s/^EnvironmentFile=-\\{0,1\\}//p'); do w=${w#*=}; "
        'case "$w" in /usr/*|/bin/*|*.py|*.sh|*.js) ;; /*) [ -f "$w" ] && echo "== $w" && '
        f"grep -viE '{SECRET_WORDS}' \"$w\" | head -n 40 | cut -c1-200;; esac; done"
    )
    return (
        FactCollector("service", "programs of supervisord", listing_scripts()["supervisord"]),
        FactCollector("service", "containers", listing_scripts()["docker"]),
        FactCollector("service", "its processes", script_command("processes", f"n={unit}")),
        FactCollector("service", "its errors", script_command("logs", f"n={unit} path=")),
        FactCollector("service", "its log", f"journalctl -u {unit} -n 40 --no-pager | cut -c1-300"),
        FactCollector("service", "its state", f"systemctl status {unit} --no-pager -n 0"),
        FactCollector("service", "its unit", f"systemctl cat {unit} --no-pager"),
        FactCollector("service", "its settings", settings),
        *found,
    )


def _host_collectors() -> tuple[FactCollector, ...]:
    properties = "Id,ActiveState,SubState,Result,NRestarts,MainPID,ExecMainStatus"
    units = (
        f'for u in {LIST_UNITS}; do systemctl show -p {properties} "$u" 2>/dev/null | '
        "tr '\\n' ' '; echo; done"
    )
    busy = "ps -eo pid,ppid,user,stat,pcpu,rss,etimes,args --sort=-{} | cut -c1-150 | head -n {}"
    large = (
        "find /var /srv /opt /tmp /home -xdev -type f -size +10M -printf '%s %TY-%Tm-%Td %TH:%TM "
        "%p\\n' 2>/dev/null | sort -rn | head -n 12"
    )
    postgres = (
        'command -v psql >/dev/null && runuser -u postgres -- psql -XAtwc "select pid, state, '
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
        FactCollector("processes", "units and their restarts", units),
        FactCollector("processes", "busiest processes", busy.format("pcpu", 12)),
        FactCollector("processes", "largest processes", busy.format("rss", 8)),
        FactCollector("processes", "memory", "free -m"),
        FactCollector("data", "disks", "df -hP; df -iP"),
        FactCollector("data", "large files", large),
        FactCollector(
            "data",
            "deleted files that are still open",
            "find /proc/[0-9]*/fd -lname '* (deleted)' -printf '%p %l\\n' 2>/dev/null | head -n 10",
        ),
        FactCollector(
            "data",
            "read-only file systems",
            "awk '{for (i = 7; $i != \"-\"; i++);} $(i + 3) ~ /^ro/ {print $(i + 2), $5}'"
            " /proc/self/mountinfo | head -n 10",
        ),
        FactCollector("data", "postgres activity", postgres),
        FactCollector("data", "redis memory", redis),
        FactCollector("network", "who listens", "ss -ltnp || netstat -ltnp"),
        FactCollector(
            "network", "connections by state", "ss -Htan | awk '{print $1}' | sort | uniq -c"
        ),
        FactCollector("network", "names", "cat /etc/hosts /etc/resolv.conf"),
        FactCollector("network", "addresses and routes", "ip -br addr; ip route"),
        FactCollector(
            "network",
            "firewall",
            "iptables -S 2>/dev/null; nft list ruleset 2>/dev/null | head -n 40",
        ),
        FactCollector("network", "certificates", certificates),
    )


def _change_collectors(minutes: float) -> tuple[FactCollector, ...]:
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
        FactCollector("changes", "files changed in the window", files.format(round(minutes))),
        FactCollector("changes", "checkouts", checkouts),
        FactCollector("changes", "deploys", deploys),
        FactCollector("changes", "timetables", timetable),
        FactCollector("changes", "packages", packages),
    )


def cluster_collectors(
    settings: KubernetesSettings, details: IncidentDetails
) -> tuple[FactCollector, ...]:
    """The queries of the configured cluster; none without one."""
    if not settings.configured:
        return ()
    namespace = alert_namespace(details)
    commands = query_commands(settings, (namespace,) if namespace else ())
    return tuple(
        FactCollector(CLUSTER_LAYER, QUERIES[name].name, command)
        for name, command in commands.items()
    )


def system_collectors(tools: Collection[str], databases: Databases) -> tuple[FactCollector, ...]:
    """The questions to a configured Prometheus and to databases; none without one."""
    return tuple(
        FactCollector(each.layer, each.name, each.words, each.tool, each.arguments)
        for each in system_questions(tools, databases)
    )


class HostFact(Value, frozen=True):
    layer: str
    name: str
    command: str
    output: str
    seq: int = 0
    """The number of the event with its result, used as evidence."""


async def collect_facts(
    wanted: Sequence[FactCollector],
    dependencies: AgentDependencies,
    executor: Executor,
    run: str,
    settings: CrewSettings,
) -> tuple[HostFact, ...]:
    """Run the collectors concurrently; one that is refused, fails or hangs is left out."""
    execute = execute_for_run(dependencies, run, executor)

    async def collect(collector: FactCollector) -> ToolResult | None:
        timeout_s = settings.facts_seconds
        arguments: dict[str, object] = {"command": collector.command, "timeout": timeout_s}
        if collector.arguments is not None:
            arguments = dict(collector.arguments)
        with anyio.move_on_after(timeout_s + TIMEOUT_GRACE_S):
            return await execute(ToolCall(new_id("fact"), collector.tool, arguments))
        return None

    results = await run_concurrently(
        [partial(collect, each) for each in wanted], settings.facts_at_once
    )
    numbers = await read_result_numbers(dependencies.bus.journal, run)
    facts = []
    for collector, result in zip(wanted, results, strict=True):
        if result is None or result.status != "ok":
            continue
        text = EMPTY_OUTPUT.sub("", result.content).rstrip()
        if collector.arguments is not None:
            text = "" if text in NOTHING_FOUND else shorten_middle(text, MAX_FINDING_CHARS)
        if len(text) > settings.shown_each:
            kept = result.artifact or await dependencies.artifacts.save(run, result.call_id, text)
            text = f"{shorten_middle(text, settings.shown_each)}\n[the whole output: {kept}]"
        command = collector.command if len(collector.command) <= 120 else "(a fixed command)"
        seq = numbers.get(result.call_id, 0)
        facts.append(HostFact(collector.layer, collector.name, command, text, seq))
    return tuple(fact for fact in facts if fact.output)


def render_facts(facts: Iterable[HostFact], max_chars: int, key: str) -> str:
    """The facts for a prompt, marked as data; those that do not fit are only named."""
    parts, missing = list[str](), list[str]()
    for fact in facts:
        text = f"#{fact.seq} {fact.name}\n$ {fact.command}\n"
        text += mark_as_data(fact.output, fact.name, key)
        if len(text) > max_chars:
            missing.append(f"#{fact.seq} {fact.name}")
            continue
        max_chars -= len(text)
        parts.append(text)
    if missing:
        parts.append(f"No room here for: {', '.join(missing)}")
    return "\n\n".join(parts)


FACTS_RUN = "facts"
"""The name of the run of the fact collectors, below that of the incident."""
_REFERENCE_NUMBER = re.compile(r"#?(\d+)")


async def read_finished_actions(journal: Journal, runs: Iterable[str]) -> list[IncidentAction]:
    """Finished calls of these runs. Read run by run: call ids of models are not unique."""
    found: list[IncidentAction] = []
    for run in runs:
        found += list_actions([each async for each in journal.read(run=run)])
    return sorted((action for action in found if action.seq), key=lambda action: action.seq)


async def list_child_runs(journal: Journal, run: str, names: Iterable[str]) -> list[str]:
    """All runs with these names, also those that were started again after a crash."""
    return [each for name in names for each in await _numbered_runs(journal, f"{run}/{name}")]


async def next_free_run(journal: Journal, run: str) -> str:
    """The run of this name, or with the next number where it exists already."""
    return _numbered_run(run, len(await _numbered_runs(journal, run)) + 1)


async def _numbered_runs(journal: Journal, run: str) -> list[str]:
    found: list[str] = []
    while [each async for each in journal.read(run=_numbered_run(run, len(found) + 1))]:
        found.append(_numbered_run(run, len(found) + 1))
    return found


def _numbered_run(run: str, number: int) -> str:
    return run if number == 1 else f"{run}-{number}"


def resolve_references(
    references: Sequence[str | int], actions: Sequence[IncidentAction]
) -> tuple[int, ...]:
    """Raises `ToolError`, for the model, for a reference to something that was not run."""
    return tuple(dict.fromkeys(_resolve_reference(str(each), actions) for each in references))


def _resolve_reference(reference: str, actions: Sequence[IncidentAction]) -> int:
    wanted = " ".join(reference.split())
    number = _REFERENCE_NUMBER.fullmatch(wanted)
    for action in reversed(actions):
        if (number and int(number[1]) == action.seq) or wanted == action.call_id:
            return action.seq
    for action in reversed(actions):
        if len(wanted) > 2 and wanted in " ".join(action.command.split()):
            return action.seq
    known = ", ".join(f"#{action.seq} ({action.command[:40]})" for action in actions[-4:])
    raise ToolError(
        f"evidence {reference[:100]!r} was not run: give the number of a result, as in "
        f"#12, or a command as you ran it. The last ones: {known or 'none yet'}"
    )


def render_evidence(
    numbers: Iterable[int], actions: Sequence[IncidentAction], key: str, *, max_chars: int = 600
) -> str:
    """The commands and outputs of the evidence, marked as data."""
    wanted = set(numbers)
    return "\n".join(
        f"#{action.seq} $ {clean_line(action.command, 160)}\n"
        + mark_as_data(shorten_middle(action.output, max_chars), "evidence", key)
        for action in actions
        if action.seq in wanted
    )
