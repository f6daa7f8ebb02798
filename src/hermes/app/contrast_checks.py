"""Finds checks by contrast: what a service does on a copy of the failing state and not afterwards.

For incidents that no check observed, such as wrong answers with status 200, a busy loop or memory
that grows: people say that it is over, and two copies tell how that shows.
"""

import re
from collections.abc import Sequence
from functools import partial
from shlex import quote

import anyio

from hermes.core.messages import Value
from hermes.environments.copies import HostCopy
from hermes.sre.probes.probe import Probe

START_S = 2.0
"""How long services of a copy have before they are measured."""
MEASURE_TIMEOUT_S = 25.0
MIN_BUSY_PERCENT, BUSY_LIMIT_PERCENT, MAX_IDLE_PERCENT = 60.0, 50.0, 35.0
MIN_GROWTH_KB, GROWTH_FACTOR = 3072, 3
MAX_PATHS, MAX_PORTS = 4, 2
_MARK = "@@hermes@@"
_PORT = re.compile(r":(\d{2,5})\b")
_REQUEST = re.compile(r"\b(?:GET|HEAD)\s+(/[\w./~-]*)")
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


class _Measures(Value, frozen=True, kw_only=True):
    """What one copy showed."""

    busy: float | None = None
    growth_kb: float | None = None
    bodies: tuple[str, ...] = ()
    """By path; empty where nothing answered with success both times alike."""


class ContrastCheck(Value, frozen=True, kw_only=True):
    probe: Probe
    detail: str
    """What it says on the copy of the failing state."""


async def find_contrasts(
    failing: HostCopy,
    recovered: HostCopy,
    services: Sequence[str],
    probes: Sequence[Probe],
    text: str,
) -> list[ContrastCheck]:
    """`text`: of the alert and the log of the service, with the requests that it answered."""
    await anyio.sleep(START_S)
    found: list[ContrastCheck] = []
    for service in services[:2]:
        place = _ServicePlace(service, _ports(service, probes), _paths(text, probes))
        measures: dict[bool, _Measures] = {}

        async def measure(
            copy: HostCopy, bad: bool, place: "_ServicePlace", measures: dict[bool, _Measures]
        ) -> None:
            measures[bad] = await place.measure(copy)

        async with anyio.create_task_group() as group:
            group.start_soon(partial(measure, failing, True, place, measures))
            group.start_soon(partial(measure, recovered, False, place, measures))
        found += place.compare(measures[True], measures[False])
    return found


class _ServicePlace:
    """One service, where it listens, and the paths that its users ask for."""

    def __init__(self, service: str, ports: Sequence[int], paths: Sequence[str]) -> None:
        self._service, self._unit = service, quote(service)
        self._urls = [
            f"http://127.0.0.1:{port}{path}" for port in ports[:MAX_PORTS] for path in paths
        ]
        self._port, self._path = (ports[0] if ports else 0), (paths[0] if paths else "/")

    async def measure(self, copy: HostCopy) -> _Measures:
        busy = await self._number(copy, _BUSY.format(unit=self._unit, idle=0), "percent")
        first, second = [await self._bodies(copy) for _ in range(2)]
        growth = None
        if self._port:
            script = _GROWTH.format(unit=self._unit, idle=0, port=self._port, path=self._path)
            growth = await self._number(copy, script, "kilobytes")
        same = [one if one == two else "" for one, two in zip(first, second, strict=True)]
        return _Measures(busy=busy, growth_kb=growth, bodies=tuple(same))

    async def _number(self, copy: HostCopy, script: str, name: str) -> float | None:
        ran = await copy.run(f"{script}\necho {_MARK} ${name}", timeout_s=MEASURE_TIMEOUT_S)
        matched = re.search(rf"{_MARK} (-?\d+)", ran.output)
        return float(matched[1]) if matched else None

    async def _bodies(self, copy: HostCopy) -> list[str]:
        found = []
        for url in self._urls:
            ran = await copy.run(f"curl -fsS -m 3 {quote(url)}", timeout_s=6.0)
            found.append(ran.output if ran.code == 0 else "")
        return found

    def compare(self, bad: _Measures, good: _Measures) -> list[ContrastCheck]:
        found = [
            self._body_check(url, one, two)
            for url, one, two in zip(self._urls, bad.bodies, good.bodies, strict=True)
        ]
        found += [self._busy_check(bad, good), self._growth_check(bad, good)]
        return [each for each in found if each is not None]

    def _body_check(self, url: str, bad: str, good: str) -> ContrastCheck | None:
        tokens = [each for each in _TOKEN.findall(good) if each not in bad]
        if not bad or not good or not tokens:
            return None
        token = max(tokens, key=len)
        script = f"curl -fsS -m 5 {quote(url)} | grep -qF -- {quote(token)}"
        return self._check("answer", script, f"{url} answers without {token}")

    def _busy_check(self, bad: _Measures, good: _Measures) -> ContrastCheck | None:
        if bad.busy is None or good.busy is None:
            return None
        if bad.busy < MIN_BUSY_PERCENT or good.busy > MAX_IDLE_PERCENT:
            return None
        script = f'{_BUSY.format(unit=self._unit, idle=1)}[ "$percent" -lt {BUSY_LIMIT_PERCENT:g} ]'
        return self._check("busy", script, f"it wants {bad.busy:g} % of a processor")

    def _growth_check(self, bad: _Measures, good: _Measures) -> ContrastCheck | None:
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
        probe = Probe(name=name, kind="command", what=script.strip(), service=self._service)
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
