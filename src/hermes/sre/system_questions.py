"""Fixed questions to a configured Prometheus and to databases that return only what is wrong.

They are asked before a model is called. Each returns nothing on a healthy system and where its
metrics do not exist, so every line that is returned is a finding.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from hermes.core.events.incidents import EscalationLine
from hermes.core.foreign_text import shorten_middle
from hermes.core.messages import ToolCall, Value
from hermes.core.protocols import Journal
from hermes.core.run_ids import new_id
from hermes.core.tool_calls import read_result_numbers
from hermes.skills.playbook.commands import ExecuteCall

QUERY_TOOL = "prometheus_query"
PROBLEM_TOOLS = {
    "postgres": "postgres_problems",
    "mysql": "mysql_problems",
    "redis": "redis_problems",
}
"""By the kind of a database, the tool that lists what is wrong in it."""
NOTHING_FOUND = frozenset({"no series match", "nothing found", "[no output]"})
MAX_FINDING_CHARS = 600
MAX_TOTAL_CHARS = 6_000
"""About 2,000 tokens for all queries together."""
_REAL_DISK = 'fstype!~"tmpfs|overlay|squashfs|ramfs|iso9660"'


class MetricQuery(Value, frozen=True):
    layer: str
    name: str
    query: str


class SystemQuestion(Value, frozen=True):
    layer: str
    name: str
    tool: str
    arguments: Mapping[str, Any]
    about: str = "metric"
    """What a line of its answer is about."""

    @property
    def words(self) -> str:
        """Return the question as people and models refer to it."""
        return str(self.arguments.get("query") or f"{self.tool} {self.arguments['connection']}")


Databases = Mapping[str, str]
"""The configured databases: their names and kinds."""
METRIC_QUERIES = (
    MetricQuery("service", "alerts that fire in Prometheus", 'ALERTS{alertstate="firing"}'),
    MetricQuery("service", "targets that do not answer", "up == 0"),
    MetricQuery(
        "service",
        "processes that were restarted in the last 30 minutes",
        "changes(process_start_time_seconds[30m]) > 0",
    ),
    MetricQuery(
        "service",
        "answers with an error, by second",
        'topk(5, sum by (job, service, instance) (rate(http_requests_total{code=~"5.."}[5m])) > 0)'
        ' or topk(5, sum by (job, service, instance) (rate(http_requests_total{status=~"5.."}[5m]))'
        " > 0)",
    ),
    MetricQuery(
        "data",
        "file systems that are more than 90 % full",
        f"100 * (1 - node_filesystem_avail_bytes{{{_REAL_DISK}}} / node_filesystem_size_bytes)"
        " > 90",
    ),
    MetricQuery(
        "data",
        "file systems that will be full within 4 hours (bytes)",
        f"predict_linear(node_filesystem_avail_bytes{{{_REAL_DISK}}}[1h], 14400) < 0",
    ),
    MetricQuery(
        "data", "databases that do not answer", "pg_up == 0 or mysql_up == 0 or redis_up == 0"
    ),
    MetricQuery(
        "data",
        "PostgreSQL servers that use more than 90 % of their connections",
        "100 * sum by (instance) (pg_stat_activity_count) / on (instance) "
        "max by (instance) (pg_settings_max_connections) > 90",
    ),
    MetricQuery(
        "data",
        "replicas that are more than a minute behind (seconds)",
        "pg_replication_lag_seconds > 60 or mysql_slave_status_seconds_behind_master > 60",
    ),
    MetricQuery(
        "host",
        "hosts with less than 10 % of their memory available",
        "100 * node_memory_MemAvailable_bytes / node_memory_MemTotal_bytes < 10",
    ),
    MetricQuery(
        "host",
        "processes that were killed for lack of memory in the last hour",
        "increase(node_vmstat_oom_kill[1h]) > 0 or increase(container_oom_events_total[1h]) > 0",
    ),
    MetricQuery(
        "host",
        "hosts whose load is more than twice their processors",
        'node_load5 / on (instance) count by (instance) (node_cpu_seconds_total{mode="idle"}) > 2',
    ),
    MetricQuery(
        "network",
        "certificates that expire within 7 days (days)",
        "(probe_ssl_earliest_cert_expiry - time()) / 86400 < 7",
    ),
    MetricQuery("network", "addresses that a probe cannot reach", "probe_success == 0"),
)


def system_questions(tools: Collection[str], databases: Databases) -> tuple[SystemQuestion, ...]:
    """Return the questions, none to a system whose tool is missing: it is not configured."""
    problems = [
        SystemQuestion(
            "data",
            f"database {name} ({kind})",
            PROBLEM_TOOLS[kind],
            {"connection": name},
            "database",
        )
        for name, kind in databases.items()
        if PROBLEM_TOOLS[kind] in tools
    ]
    metrics = METRIC_QUERIES if QUERY_TOOL in tools else ()
    return (
        *problems,
        *(
            SystemQuestion(each.layer, each.name, QUERY_TOOL, {"query": each.query})
            for each in metrics
        ),
    )


async def measure_systems(
    execute: ExecuteCall,
    tools: Collection[str],
    journal: Journal,
    run: str,
    databases: Databases | None = None,
) -> tuple[Sequence[EscalationLine], frozenset[str]]:
    """Return what the answers show, with the events of the calls, and the ids of the calls."""
    questions = system_questions(tools, databases or {})
    found, left = list[tuple[SystemQuestion, str, str]](), MAX_TOTAL_CHARS
    calls = [ToolCall(new_id("metric"), each.tool, dict(each.arguments)) for each in questions]
    for question, call in zip(questions, calls, strict=True):
        result = await execute(call)
        if result.status != "ok":
            if question.tool == QUERY_TOOL:  # it does not answer: the others would wait as long
                break
            continue
        if result.content.strip() in NOTHING_FOUND:
            continue
        text = shorten_middle(result.content.strip(), min(MAX_FINDING_CHARS, left))
        left -= len(text)
        found.append((question, call.id, text))
        if left < MAX_FINDING_CHARS // 2:
            break
    numbers = await read_result_numbers(journal, run)
    lines = [_line(question, text, numbers.get(call, 0)) for question, call, text in found]
    return lines, frozenset(call.id for call in calls)


def _line(question: SystemQuestion, text: str, seq: int) -> EscalationLine:
    if question.tool == QUERY_TOOL:
        first, *rest = text.splitlines()  # the first line counts the series
        shown = rest or [first]
    else:
        shown = [line for line in text.splitlines() if not line.startswith("[exit code")]
    words = "; ".join(line.strip() for line in shown if line.strip())
    return EscalationLine(
        about=question.about, text=f"{question.name}: {words}", evidence=(seq,) if seq else ()
    )
