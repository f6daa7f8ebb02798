"""Counts alerts and requests, and renders the counts in the Prometheus text format."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping

LATENCY_BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
GAUGE_HELP = {
    "journal_writable": "1 while the journal can be written, 0 while the watch runs from memory.",
    "journal_held_events": "Events that wait in memory for the journal.",
    "journal_dropped_events": "Events of the last outage that did not fit into memory.",
    "jobs_due": "Jobs that are due and have not begun.",
    "jobs_running": "Jobs that run now.",
    "messages_waiting": "Messages to people that are not delivered yet.",
    "streams_open": "Open streams of events and answers.",
    "turns_running": "Turns of conversations that are worked on now, in all processes.",
    "reserve_bytes": "Disk space set aside for a full disk, as far as it is left.",
}
METRICS_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class AlertMetrics:
    def __init__(self) -> None:
        self._received: Counter[tuple[str, str]] = Counter()
        self._rejected: Counter[str] = Counter()
        self._replies: Counter[tuple[str, str]] = Counter()
        self._truncated = 0
        self._buckets = [0] * (len(LATENCY_BUCKETS_S) + 1)
        self._seconds = 0.0

    def count_alert(self, source: str, *, resolved: bool) -> None:
        self._received[source, "resolved" if resolved else "firing"] += 1

    def count_rejected(self, why: str, count: int = 1) -> None:
        self._rejected[why] += count

    def count_truncated(self, count: int) -> None:
        self._truncated += count

    def count_response(self, path: str, status: int) -> None:
        """Pass only known paths: unknown ones could create any number of counters."""
        self._replies[path, str(status)] += 1

    def observe_latency(self, seconds: float) -> None:
        self._buckets[bisect_left(LATENCY_BUCKETS_S, seconds)] += 1
        self._seconds += seconds

    def render(
        self, open_incidents: Mapping[str, int], gauges: Mapping[str, float] | None = None
    ) -> str:
        lines = [*self._lines(open_incidents), *_gauge_lines(gauges or {})]
        return "".join(f"{line}\n" for line in lines)

    def _lines(self, open_incidents: Mapping[str, int]) -> Iterator[str]:
        yield from _metric_header(
            "hermes_alerts_received_total", "counter", "Alerts kept in the journal."
        )
        for (source, status), count in sorted(self._received.items()):
            yield (f'hermes_alerts_received_total{{source="{source}",status="{status}"}} {count}')
        yield from _metric_header(
            "hermes_alerts_refused_total", "counter", "Alerts not kept, by reason."
        )
        for why, count in sorted(self._rejected.items()):
            yield f'hermes_alerts_refused_total{{reason="{why}"}} {count}'
        yield from _metric_header(
            "hermes_alerts_left_out_total", "counter", "Alerts that Alertmanager left out itself."
        )
        yield f"hermes_alerts_left_out_total {self._truncated}"
        yield from _metric_header(
            "hermes_http_requests_total", "counter", "Requests by path and status."
        )
        for (path, status), count in sorted(self._replies.items()):
            yield f'hermes_http_requests_total{{path="{path}",code="{status}"}} {count}'
        yield from self._histogram("hermes_alert_write_seconds")
        yield from _metric_header("hermes_incidents_open", "gauge", "Open incidents by severity.")
        for severity, count in sorted(open_incidents.items()):
            yield f'hermes_incidents_open{{severity="{severity}"}} {count}'

    def _histogram(self, name: str) -> Iterator[str]:
        yield from _metric_header(
            name, "histogram", "Time from a complete request to its durable write."
        )
        total = 0
        for bound, count in zip((*LATENCY_BUCKETS_S, "+Inf"), self._buckets, strict=True):
            total += count
            yield f'{name}_bucket{{le="{bound}"}} {total}'
        yield f"{name}_sum {self._seconds:.6f}"
        yield f"{name}_count {total}"


def _gauge_lines(gauges: Mapping[str, float]) -> Iterator[str]:
    for name, value in sorted(gauges.items()):
        yield from _metric_header(
            f"hermes_{name}", "gauge", GAUGE_HELP.get(name, name.replace("_", " "))
        )
        yield f"hermes_{name} {value:g}"


def _metric_header(name: str, kind: str, text: str) -> Iterator[str]:
    yield f"# HELP {name} {text}"
    yield f"# TYPE {name} {kind}"
