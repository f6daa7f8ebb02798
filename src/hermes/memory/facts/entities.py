"""Finds what a text is about (services, files, alerts), and the general form of an error."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime

from hermes.memory.facts.fact import split_words

_SERVICE = re.compile(
    r"\b(?:systemctl|service|rc-service)\s+(?:-\S+\s+)*(?:[a-z-]+\s+)?([a-zA-Z][\w@.-]+)"
    r"|\b([a-zA-Z][\w@-]+)\.service\b"
    r"|\b(?:deploy(?:ment)?s?|svc|services?|statefulsets?|daemonsets?|pods?)/([a-z0-9][a-z0-9.-]+)"
    r"|\bdocker\s+(?:restart|start|stop|logs|inspect|exec)\s+(?:-\S+\s+)*([a-zA-Z][\w.-]+)"
    r"|^(?:\S+\s+){0,4}([a-zA-Z][\w-]{1,30})\[\d+\]:",
    re.MULTILINE,
)
_KNOWN_SERVICE = re.compile(
    r"\b(nginx|apache2?|httpd|haproxy|caddy|envoy|traefik|postgres(?:ql)?|mysql|mariadb|redis"
    r"|memcached|mongodb|mongod|rabbitmq|kafka|zookeeper|elasticsearch|opensearch|etcd|consul|vault"
    r"|prometheus|grafana|loki|docker|containerd|kubelet|sshd|cron|systemd|argocd|jenkins|celery"
    r"|gunicorn|uwsgi|php-fpm|minio|influxdb|cassandra|clickhouse|named|dnsmasq|coredns)\b",
    re.IGNORECASE,
)
_SERVICE_VERBS = frozenset(
    split_words(
        "status start stop restart reload enable disable show cat is-active is-failed list-units "
        "daemon-reload mask unmask edit"
    )
)
_FILE_PATH = re.compile(r"(?<![\w:/.])(/(?:[\w.@+-]+/)*[\w.@+-]*\w)")
_ALERT = re.compile(
    r"\b(?:ALERT|INC|SEV|PD|OPS|ISSUE)-?\d{2,10}\b|\balertname\s*[=:]\s*\"?([A-Za-z]\w+)"
    r"|\b(?:alert|incident)\s+#?([A-Za-z]*-?\d{2,10})\b"
)
_ERROR = re.compile(
    r"\b(?:error|fatal|panic|critical|emerg|exception|traceback|failed|failure|refused|denied"
    r"|timed out|timeout|oom|out of memory|no space left|cannot|unable to|segfault|not found"
    r"|unreachable|killed process|ECONN\w+|EADDR\w+|ENO\w+)\b",
    re.IGNORECASE,
)
_NO_ERROR = re.compile(r"\b(?:0|no|without) (?:errors?|failures?|failed)\b", re.IGNORECASE)

_TIMESTAMP = re.compile(r"\b(\d{4})[-/](\d\d)[-/](\d\d)[T ](\d\d):(\d\d):(\d\d)")
_SIGNATURE_REPLACEMENTS = (
    (re.compile(r"\x1b\[[0-9;]*[A-Za-z]"), ""),
    (
        re.compile(
            r"\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d[.,\d]*(?:Z|[+-]\d\d:?\d\d)?"
            r"|\b(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) +\d+ \d\d:\d\d:\d\d"
            r"|\b\d\d:\d\d:\d\d[.,\d]*"
        ),
        "",
    ),
    (re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", re.IGNORECASE), "<id>"),
    (re.compile(r"\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b"), "<address>"),
    (re.compile(r"(?<![\w:/.])/[\w./@+-]*\w"), "<path>"),
    (re.compile(r"\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{6,64}\b", re.IGNORECASE), "<id>"),
    (re.compile(r"0x[0-9a-fA-F]+"), "<n>"),
    (re.compile(r"(?<![A-Za-z])[-+]?\d+(?:[.,]\d+)*"), "<n>"),
)


def error_signature(line: str, size: int = 160) -> str:
    """The constant part of an error: numbers, paths, ids and times are removed."""
    line = line[:2_000]
    for pattern, mark in _SIGNATURE_REPLACEMENTS:
        line = pattern.sub(mark, line)
    line = " ".join(line.split()).strip(" -:|")
    return line if len(line) <= size else f"{line[: size - 1]}…"


def error_lines(text: str, max_lines: int = 3) -> Iterator[str]:
    """The first lines with an error, each kind once."""
    seen: set[str] = set()
    for line in text.splitlines():
        if len(seen) >= max_lines:
            return
        short = line[:2_000]
        if not _ERROR.search(short) or _NO_ERROR.search(short):
            continue
        found = error_signature(short)
        if len(found) > 8 and found not in seen:
            seen.add(found)
            yield short.strip()


def entities_in(text: str, max_entities: int = 8) -> tuple[str, ...]:
    """Services, then alerts, then files, as far as a text names them."""
    text = text[:20_000]
    found = [*services_in(text), *alerts_in(text), *files_in(text)]
    return tuple(dict.fromkeys(found))[:max_entities]


def services_in(text: str) -> list[str]:
    named = (next(filter(None, match.groups())) for match in _SERVICE.finditer(text))
    plain = [name.removesuffix(".service").rstrip(".-") for name in named]
    known = [match[1].casefold() for match in _KNOWN_SERVICE.finditer(text)]
    return list(
        dict.fromkeys(name for name in (*plain, *known) if name and name not in _SERVICE_VERBS)
    )


def files_in(text: str) -> list[str]:
    found = (match[1] for match in _FILE_PATH.finditer(text))
    return list(dict.fromkeys(path for path in found if len(path) > 3 and path.count("/") > 1))


def alerts_in(text: str) -> list[str]:
    return list(dict.fromkeys(match[1] or match[2] or match[0] for match in _ALERT.finditer(text)))


def time_in_line(line: str, now: datetime) -> datetime:
    """The time in a log line, if there is one in the past; else now."""
    found = _TIMESTAMP.search(line[:200])
    if found is None:
        return now
    try:
        at = datetime(*map(int, found.groups()), tzinfo=UTC)  # type: ignore[misc, arg-type]
    except ValueError:
        return now
    return min(at, now)
