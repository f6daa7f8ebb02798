"""Finds checks by contrast: what a service does on a copy that fails and not on a healthy one.

For incidents that no check observed, such as wrong answers with status 200, a busy loop, memory
that grows or work that piles up: two copies tell how that shows.
"""

import re
from collections.abc import Sequence
from functools import partial
from shlex import quote

import anyio

from hermes.core.messages import Value
from hermes.declared.experiments.host_programs import HostService, named_paths
from hermes.environments.copies import HostCopy
from hermes.sre.probes.probe import Probe

START_S = 2.0
"""How long services of a copy have before they are measured."""
MEASURE_TIMEOUT_S = 25.0
CHECK_TIMEOUT_S = 15.0
"""Some ask for fifty pages: on a busy host that takes longer than a usual check may."""
MIN_BUSY_PERCENT, BUSY_LIMIT_PERCENT, MAX_IDLE_PERCENT = 60.0, 50.0, 35.0
MIN_GROWTH_KB, GROWTH_FACTOR = 3072, 3
MAX_PATHS, MAX_PORTS, MAX_FOLDERS = 4, 2, 12
MIN_SLOW_S, SLOW_FACTOR = 1.0, 6.0
MIN_BACKLOG, BACKLOG_FACTOR = 12, 3
ANSWER_TIMEOUT_S = 4.0
WRITE_S = 0.3
"""How long a service may take to write what it answered."""
_MARK = "@@hermes@@"
_PORT = re.compile(r":(\d{2,5})\b")
_REQUEST = re.compile(r"\b(?:GET|HEAD)\s+(/[\w./~-]*)")
_ANSWER = re.compile(rf"\n{_MARK} (\d+) ([\d.]+)\n")
_TOKEN = re.compile(r"[\w.-]{4,60}")
_BUSY = """
m=$(systemctl show -p MainPID --value -- {unit} 2>/dev/null); [ "${{m:-0}}" -gt 0 ] || exit {idle}
wants() {{ awk '{{ s += $1 + $2 }} END {{ printf "%.0f\\n", s }}' /proc/$m/task/*/schedstat; }}
a=$(wants); s=$(date +%s%N); sleep 0.8; b=$(wants); e=$(date +%s%N)
percent=$(( 100 * (b - a) / (e - s) ))
"""
_GROWTH = """
m=$(systemctl show -p MainPID --value -- {unit} 2>/dev/null); [ "${{m:-0}}" -gt 0 ] || exit {idle}
kb() {{ awk '/^VmRSS/ {{ print $2 }}' /proc/$m/status 2>/dev/null; }}
k=$(date +%s%N)  # new requests each time: answers may be kept
ask() {{ for i in $(seq $1 $2); do
  curl -sf -o /dev/null -m 3 "http://127.0.0.1:{port}{path}?n=$k-$i" || exit {idle}; done; }}
ask 1 20; a=$(kb); ask 21 50; b=$(kb)
kilobytes=$(( ${{b:-0}} - ${{a:-0}} ))
"""


class ServiceAnswer(Value, frozen=True):
    status: int = 0
    seconds: float = 0.0
    body: str = ""

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 400


class ServiceMeasures(Value, frozen=True, kw_only=True):
    """The measurements of one copy."""

    busy: float | None = None
    growth_kb: float | None = None
    answers: tuple[tuple[ServiceAnswer, ServiceAnswer], ...] = ()
    """By address, each asked twice."""
    entries: dict[str, int] = {}
    """How many files are in the folders that the service names."""
    grown: tuple[str, ...] = ()
    """Files that the service names and that grew with requests."""


class ContrastCheck(Value, frozen=True, kw_only=True):
    probe: Probe
    detail: str
    """What it says on the copy that fails."""


async def find_contrasts(
    failing: HostCopy,
    healthy: HostCopy,
    services: Sequence[HostService],
    probes: Sequence[Probe],
    text: str,
) -> list[ContrastCheck]:
    """`text`: of the alert and the log of the service, with the requests that it answered."""
    await anyio.sleep(START_S)
    found: list[ContrastCheck] = []
    for service in services[:2]:
        place = ServicePlace(service, _ports(service.name, probes), _paths(text, probes))
        measures: dict[bool, ServiceMeasures] = {}

        async def measure(
            copy: HostCopy, bad: bool, place: "ServicePlace", measures: dict[bool, ServiceMeasures]
        ) -> None:
            measures[bad] = await place.measure(copy)

        async with anyio.create_task_group() as group:
            group.start_soon(partial(measure, failing, True, place, measures))
            group.start_soon(partial(measure, healthy, False, place, measures))
        found += place.compare(measures[True], measures[False])
    return found


class ServicePlace:
    """One service, where it listens, the paths that its users ask for, and the folders that its
    settings name."""

    def __init__(self, service: HostService, ports: Sequence[int], paths: Sequence[str]) -> None:
        self._service, self._unit = service.name, quote(service.name)
        self._urls = [
            f"http://127.0.0.1:{port}{path}" for port in ports[:MAX_PORTS] for path in paths
        ]
        self._port, self._path = (ports[0] if ports else 0), (paths[0] if paths else "/")
        self._folders = list(dict.fromkeys(named_paths(service.settings_text)))[:MAX_FOLDERS]

    async def measure(self, copy: HostCopy) -> ServiceMeasures:
        busy = await self._number(copy, _BUSY.format(unit=self._unit, idle=0), "percent")
        sizes = await self._file_sizes(copy)
        first, second = [await self._ask(copy) for _ in range(2)]
        later = await self._file_sizes(copy)
        growth = None
        if self._port:
            script = _GROWTH.format(unit=self._unit, idle=0, port=self._port, path=self._path)
            growth = await self._number(copy, script, "kilobytes")
        return ServiceMeasures(
            busy=busy,
            growth_kb=growth,
            answers=tuple(zip(first, second, strict=True)),
            entries=await self._count_entries(copy),
            grown=tuple(path for path, size in later.items() if size > sizes.get(path, size)),
        )

    async def _number(self, copy: HostCopy, script: str, name: str) -> float | None:
        ran = await copy.run(f"{script}\necho {_MARK} ${name}", timeout_s=MEASURE_TIMEOUT_S)
        matched = re.search(rf"{_MARK} (-?\d+)", ran.output)
        return float(matched[1]) if matched else None

    async def _ask(self, copy: HostCopy) -> list[ServiceAnswer]:
        limit, report = f"-m {ANSWER_TIMEOUT_S:g}", rf"\n{_MARK} %{{http_code}} %{{time_total}}\n"
        lines = [f"curl -s {limit} -w {quote(report)} {quote(url)}" for url in self._urls]
        if not lines:
            return []
        ran = await copy.run("\n".join(lines), timeout_s=MEASURE_TIMEOUT_S)
        parts = _ANSWER.split(ran.output)
        found = [
            ServiceAnswer(int(status), float(seconds), body)
            for body, status, seconds in zip(parts[::3], parts[1::3], parts[2::3], strict=False)
        ]
        return [*found, *([ServiceAnswer()] * (len(lines) - len(found)))]

    async def _count_entries(self, copy: HostCopy) -> dict[str, int]:
        names = " ".join(quote(each) for each in self._folders)
        if not names:
            return {}
        script = f'for d in {names}; do [ -d "$d" ] && echo "$(ls -- "$d" | wc -l) $d"; done; true'
        ran = await copy.run(script, timeout_s=MEASURE_TIMEOUT_S)
        pairs = [line.partition(" ") for line in ran.output.splitlines()]
        return {path: int(count) for count, _, path in pairs if count.isdigit()}

    async def _file_sizes(self, copy: HostCopy) -> dict[str, int]:
        names = " ".join(quote(each) for each in self._folders)
        if not names or not self._urls:
            return {}
        script = f"sleep {WRITE_S}; stat -L -c '%s %F:%n' -- {names} 2>/dev/null; true"
        ran = await copy.run(script, timeout_s=MEASURE_TIMEOUT_S)
        found = re.findall(r"^(\d+) regular (?:empty )?file:(.+)$", ran.output, re.MULTILINE)
        return {path: int(size) for size, path in found}

    def compare(self, bad: ServiceMeasures, good: ServiceMeasures) -> list[ContrastCheck]:
        found = [
            self._answer_check(url, one, two)
            for url, one, two in zip(self._urls, bad.answers, good.answers, strict=True)
        ]
        found += [
            self._backlog_check(path, count, good.entries.get(path, count))
            for path, count in bad.entries.items()
        ]
        found += [self._busy_check(bad, good), self._growth_check(bad, good)]
        found += [self._silence_check(path) for path in good.grown if path not in bad.grown]
        return [each for each in found if each is not None]

    def _answer_check(
        self,
        url: str,
        bad: tuple[ServiceAnswer, ServiceAnswer],
        good: tuple[ServiceAnswer, ServiceAnswer],
    ) -> ContrastCheck | None:
        if not all(each.ok for each in good):
            return None
        ask = f"curl -fsS -m {ANSWER_TIMEOUT_S:g} {quote(url)}"
        if not any(each.ok for each in bad):
            status = bad[-1].status
            detail = f"{url} answers with status {status}" if status else f"{url}: no answer"
            return self._check("answer", f"{ask} >/dev/null", detail)
        fast, slow = max(each.seconds for each in good), min(each.seconds for each in bad)
        if slow >= MIN_SLOW_S and slow >= SLOW_FACTOR * fast:
            limit = max(slow / 3, 2 * fast)
            script = f"curl -fsS -o /dev/null -m {limit:.2f} {quote(url)}"
            return self._check("slow", script, f"{url} takes {slow:.1f} s")
        bodies = {each.body for each in bad}, {each.body for each in good}
        if any(len(each) > 1 for each in bodies):  # it differs from request to request
            return None
        tokens = [each for each in _TOKEN.findall(good[0].body) if each not in bad[0].body]
        if not tokens:
            return None
        token = max(tokens, key=len)
        script = f"{ask} | grep -qF -- {quote(token)}"
        return self._check("answer", script, f"{url} answers without {token}")

    def _backlog_check(self, path: str, bad: int, good: int) -> ContrastCheck | None:
        if bad < MIN_BACKLOG or bad < BACKLOG_FACTOR * good:
            return None
        limit = good + (bad - good) // 4
        script = f'[ "$(ls -- {quote(path)} | wc -l)" -le {limit} ]'
        return self._check("backlog", script, f"{bad} files wait in {path}")

    def _silence_check(self, path: str) -> ContrastCheck:
        """Make a check that fails when requests are no longer written to a log."""
        url, file = self._urls[0], quote(path)
        size = f"stat -L -c %s -- {file} 2>/dev/null || echo 0"
        asks = f"curl -s -o /dev/null -m {ANSWER_TIMEOUT_S:g} {quote(url)}"
        script = f'a=$({size}); {asks}; {asks}; sleep {WRITE_S}; [ "$({size})" -gt "$a" ]'
        return self._check("silent", script, f"requests are not written to {path}")

    def _busy_check(self, bad: ServiceMeasures, good: ServiceMeasures) -> ContrastCheck | None:
        if bad.busy is None or good.busy is None:
            return None
        if bad.busy < MIN_BUSY_PERCENT or good.busy > MAX_IDLE_PERCENT:
            return None
        script = f'{_BUSY.format(unit=self._unit, idle=1)}[ "$percent" -lt {BUSY_LIMIT_PERCENT:g} ]'
        return self._check("busy", script, f"it wants {bad.busy:g} % of a processor")

    def _growth_check(self, bad: ServiceMeasures, good: ServiceMeasures) -> ContrastCheck | None:
        if bad.growth_kb is None or good.growth_kb is None or bad.growth_kb < MIN_GROWTH_KB:
            return None
        if bad.growth_kb < GROWTH_FACTOR * max(1.0, good.growth_kb):
            return None
        limit = int((bad.growth_kb + max(0.0, good.growth_kb)) / 2)
        head = _GROWTH.format(unit=self._unit, idle=1, port=self._port, path=self._path)
        detail = f"it grows by {bad.growth_kb:g} kB with 30 requests"
        return self._check("growth", f'{head}[ "$kilobytes" -lt {limit} ]', detail)

    def _check(self, what: str, script: str, detail: str) -> ContrastCheck:
        name = f"{what}-{self._service}"[:48]
        probe = Probe(
            name=name,
            kind="command",
            what=script.strip(),
            service=self._service,
            timeout=CHECK_TIMEOUT_S,
        )
        return ContrastCheck(probe=probe, detail=detail)


def _ports(service: str, probes: Sequence[Probe]) -> list[int]:
    own = [each for each in probes if each.service == service and each.kind in ("http", "port")]
    found = [int(port) for each in own for port in _PORT.findall(f":{each.what}")]
    return list(dict.fromkeys(found))


def _paths(text: str, probes: Sequence[Probe]) -> list[str]:
    """Those that users ask for most, then those of our own checks."""
    asked = _REQUEST.findall(text)
    often = sorted(dict.fromkeys(asked), key=lambda path: -asked.count(path))
    own = [re.sub(r"^\w+://[^/]+", "", each.what) for each in probes if each.kind == "http"]
    named = re.findall(r"(?<=\d)(/[\w-]+)", text)
    return list(dict.fromkeys(each or "/" for each in (*often, *named, *own)))[:MAX_PATHS]
