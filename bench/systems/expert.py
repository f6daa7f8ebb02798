"""A scripted expert: the same questions in every incident, and rules for the answers.

It never learns which fault was seeded.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from hermes.core.messages import Completion, Message, ToolCall, ToolSpec
from hermes.core.run_ids import new_id

QUESTIONS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("prometheus_query", {"query": "up == 0"}),
    (
        "prometheus_query",
        {"query": 'sum by (job) (rate(http_requests_total{code=~"5.."}[1m])) > 0'},
    ),
    ("prometheus_query", {"query": "(probe_ssl_earliest_cert_expiry - time()) / 86400 < 7"}),
    ("postgres_locks", {}),
    (
        "sql_query",
        {
            "sql": "select application_name, state, count(*), current_setting('max_connections') "
            "from pg_stat_activity group by 1, 2 order by 3 desc"
        },
    ),
    ("mysql_locks", {}),
    ("redis_info", {"section": "memory"}),
    ("kubernetes_get", {"kind": "pods", "namespace": "{namespace}"}),
    ("kubernetes_events", {"namespace": "{namespace}"}),
)
"""What the expert asks, in every incident."""
RULES: tuple[tuple[str, str], ...] = (
    (r"__name__=up, .*job=(?P<a>[\w-]+): 0", "the target of job {a} does not answer"),
    (r"(?m)^job=(?P<a>[\w-]+): ", "job {a} answers with errors 5xx"),
    (r"instance=(?P<a>[\w.]+\.example)", "the certificate of {a} expires within days"),
    (
        r"\|\s*idle in transaction\s*\|[^|]*\|\s*(?P<a>[^|\n]+?)\s*(?:\n|\|)",
        "a transaction that is left open blocks others: {a}",
    ),
    (
        r"(?P<a>[\w-]+)\s*\|\s*idle\s*\|\s*(?P<b>1\d)\s*\|\s*20",
        "{a} holds {b} of 20 connections, which are nearly used up",
    ),
    (
        r"\|\s*\d+\s*\|\s*(?P<a>update [^|]+?)\s*\|\s*\d+",
        "{a} waits for the lock of another thread",
    ),
    (
        r"used_memory:(?P<a>\d{7,})[\s\S]*maxmemory:2097152[\s\S]*maxmemory_policy:noeviction",
        "Redis has used {a} of 2097152 bytes (maxmemory) and evicts nothing",
    ),
    (r"(?P<a>exceeded quota: [^\n]+)", "pods are refused: {a}"),
    (r"(?P<a>couldn't find key \S+ in ConfigMap \S+)", "a container cannot be configured: {a}"),
    (r"(?P<a>\S+ is not set)", "a container ends at its start: {a}"),
)
"""What the expert recognises, and what it says then."""


class Expert:
    """Implements `Model`: asks all questions whose tools are there, then applies its rules."""

    name, window = "expert", 200_000

    async def complete(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec] = ()
    ) -> Completion:
        known = {each.name for each in tools}
        text = "\n".join(each.text for each in messages)
        if "conclude" in known:
            calls = [_conclusion(text)]
        elif not any(each.result for each in messages):
            calls = list(_questions(known, text))
        else:
            calls = [_finding([each for each in messages if each.result is not None])]
        message = Message(role="assistant", calls=tuple(calls))
        return Completion(message=message, model=self.name, finish="calls")


def _questions(known: set[str], text: str) -> Iterator[ToolCall]:
    namespace = re.search(r"namespace\W+([a-z0-9-]+)", text)
    for name, arguments in QUESTIONS:
        if name not in known or (name.startswith("kubernetes") and namespace is None):
            continue
        where = namespace[1] if namespace else ""
        given = {key: value.replace("{namespace}", where) for key, value in arguments.items()}
        yield ToolCall(new_id("ask"), name, given)


def _finding(results: Sequence[Message]) -> ToolCall:
    for pattern, said in RULES:
        for each in results:
            if each.result is not None and (found := re.search(pattern, each.result.content)):
                claim = said.format(**found.groupdict())
                given = {"claim": claim, "evidence": [each.result.call_id], "last": True}
                return ToolCall(new_id("say"), "finding", given)
    return ToolCall(new_id("say"), "finding", {"gaps": ["no rule matched"], "last": True})


def _conclusion(text: str) -> ToolCall:
    found = re.search(r"found: (.+?) \((#\d+)", text)
    hypotheses = (
        [{"component": "systems", "mechanism": found[1], "evidence": [found[2]], "confidence": 0.9}]
        if found
        else []
    )
    return ToolCall(new_id("say"), "conclude", {"verdict": "escalate", "hypotheses": hypotheses})
