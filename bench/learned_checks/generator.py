"""Twenty healthy services with the irregular behaviour that real services show.

Every service is an endless generator of minutes with its own `random.Random`, so that the same seed
gives the same minutes and a larger `count` continues a smaller one. Planned events (releases, patch
windows, log rotation, batches, a public holiday) are part of what is healthy.
"""

import json
import math
import random
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count as count_from
from itertools import islice

from interface import Answer, LogActivity, ProcessUse, Service, ServiceMinute

JSON_TYPE, HTML_TYPE = "application/json", "text/html; charset=utf-8"
WORDS = ("alder", "birch", "cedar", "hazel", "larch", "maple")
WORDS += ("oak", "pine", "rowan", "spruce", "willow", "yew")


@dataclass(frozen=True)
class _Tick:
    """One minute: its end, the day since the first Monday, and the minute of that day."""

    at: float
    day: int
    minute: int

    @property
    def weekday(self) -> int:
        return self.day % 7

    def within(self, first: int, length: int) -> bool:
        return first <= self.minute < first + length


def _ticks(start: float) -> Iterator[_Tick]:
    for index in count_from():
        yield _Tick(start + 60.0 * (index + 1), index // 1440, index % 1440)


def _poisson(rng: random.Random, mean: float) -> int:
    """A count; wider than Poisson for large means, as real traffic is."""
    if mean > 30:
        return max(0, round(rng.gauss(mean, math.sqrt(mean) + 0.06 * mean)))
    product, number, limit = rng.random(), 0, math.exp(-mean)
    while product > limit:
        product, number = product * rng.random(), number + 1
    return number


def _iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _json(value: object, seconds: float, content_type: str = JSON_TYPE) -> Answer:
    return Answer(200, content_type, json.dumps(value).encode(), seconds)


def _html(title: str, inner: str, seconds: float) -> Answer:
    page = f"<!doctype html><html><head><title>{title}</title></head><body>{inner}</body></html>"
    return Answer(200, HTML_TYPE, page.encode(), seconds)


class _Traffic:
    """Load between about 0 and 1.5 with a daily curve, weekends, better and worse days, drift."""

    def __init__(self, rng: random.Random, peak: float, night: float, weekend: float = 1.0):
        self._rng, self._peak, self._night, self._weekend = rng, peak, night, weekend
        self._day_factor, self._drift = 1.0, 0.0

    def at(self, t: _Tick) -> float:
        if t.minute == 0:
            self._day_factor = math.exp(self._rng.gauss(0, 0.13))
        self._drift = 0.97 * self._drift + self._rng.gauss(0, 0.03)
        curve = 0.5 + 0.5 * math.cos(2 * math.pi * (t.minute / 60 - self._peak) / 24)
        weekend = self._weekend if t.weekday >= 5 else 1.0
        base = self._night + (1 - self._night) * math.pow(curve, 1.6)
        return base * weekend * self._day_factor * math.exp(self._drift)


class _Latency:
    """Log-normal times with slow drift and a rare slow answer (a lost packet, a pause)."""

    def __init__(self, rng: random.Random, median: float, sigma: float = 0.25):
        self._rng, self._median, self._sigma, self._drift = rng, median, sigma, 0.0

    def draw(self, factor: float = 1.0) -> float:
        self._drift = 0.985 * self._drift + self._rng.gauss(0, 0.025)
        value = self._median * factor * math.exp(self._drift + self._rng.gauss(0, self._sigma))
        if self._rng.random() < 0.002:
            value += self._rng.uniform(0.2, 1.6)
        return round(value, 4)


class _Log:
    """Counts the silence of one log file."""

    def __init__(self, rng: random.Random, silent: float = 20.0):
        self._rng, self._silent = rng, silent

    def add(self, lines: int, errors: int = 0) -> LogActivity:
        lines = max(lines, errors)
        if lines:
            self._silent = 60 * (1 - self._rng.random() ** (1 / lines))
        else:
            self._silent += 60
        return LogActivity(lines, errors, round(self._silent, 1))


class _Process:
    """Start time and processor time of a service that has run for days when the run begins."""

    def __init__(self, rng: random.Random, start: float, cpu_per_day: float):
        self._rng, age = rng, rng.uniform(1.5, 60)
        self._started, self._cpu = start - age * 86400, age * cpu_per_day

    def restart(self, t: _Tick) -> None:
        self._started, self._cpu = t.at - self._rng.uniform(4, 50), self._rng.uniform(0.3, 3.5)

    def use(self, t: _Tick, cpu: float, memory_mb: float, descriptors: float) -> ProcessUse:
        self._cpu += max(0.0, min(cpu, 4 * (t.at - self._started))) * self._rng.uniform(0.85, 1.2)
        memory = round(memory_mb * 256 * self._rng.gauss(1, 0.002)) * 4
        return ProcessUse(round(self._started, 2), round(descriptors), memory, round(self._cpu, 2))


def _new_order(rng: random.Random, number: int) -> dict[str, object]:
    order: dict[str, object] = {"id": number, "state": "new", "shipped_at": None}
    order["total"] = round(rng.lognormvariate(3.4, 0.8), 2)
    order["items"] = [{"sku": rng.choice(WORDS), "qty": 1} for _ in range(rng.randint(1, 4))]
    if rng.random() < 0.2:
        order["coupon"] = rng.choice(WORDS).upper()
    if rng.random() < 0.02:
        order["gift_note"] = " ".join(rng.choices(WORDS, k=rng.randint(2, 40)))
    return order


def _orders_api(rng: random.Random, start: float) -> Iterator[ServiceMinute]:
    """JSON with optional fields; the list is emptied at night; workers are recycled one by one."""
    traffic = _Traffic(rng, rng.uniform(13, 19), 0.03, 1.3)
    latency, process = _Latency(rng, 0.06), _Process(rng, start, 2600)
    access, errors = _Log(rng), _Log(rng, 4000)
    recent: deque[dict[str, object]] = deque(maxlen=25)
    number, workers = rng.randrange(9000, 90000), [rng.uniform(60, 110) for _ in range(8)]
    for t in _ticks(start):
        load = traffic.at(t)
        if t.minute == 185:
            recent.clear()
        for _ in range(_poisson(rng, 2.5 * load)):
            number += rng.choice((1, 1, 1, 2, 5))
            recent.appendleft(_new_order(rng, number))
        if recent and rng.random() < 0.3:
            rng.choice(recent).update(state="shipped", shipped_at=_iso(t.at))
        patched = t.day == 8 and t.minute == 258
        if patched:
            process.restart(t)
        for index in range(8):
            workers[index] += rng.uniform(0, 0.12) * load
            if workers[index] > 118 or patched:
                workers[index] = rng.uniform(55, 62)
        waiting = next((o for o in recent if o["state"] == "new"), None)
        following = Answer(204, "", b"", latency.draw(0.4))
        if waiting is not None:
            following = _json(waiting, latency.draw(0.5))
        body = {"orders": list(recent), "more": len(recent) == 25}
        answers = {"/orders": _json(body, latency.draw(1 + 0.5 * load)), "/orders/next": following}
        failed = _poisson(rng, 0.04 * load) + (rng.randint(1, 4) if patched else 0)
        logs = {
            "/var/log/orders/access.log": access.add(2 + _poisson(rng, 260 * load)),
            "/var/log/orders/error.log": errors.add(failed * rng.randint(1, 9), failed),
        }
        use = process.use(t, 0.3 + 4 * load, sum(workers), 70 + 40 * load + rng.randint(0, 9))
        yield ServiceMinute(t.at, answers, logs, use)


def _search_api(rng: random.Random, start: float) -> Iterator[ServiceMinute]:
    """Number types and facet keys vary; an index rebuild every six hours slows the answers."""
    traffic, latency = _Traffic(rng, 20, 0.12), _Latency(rng, 0.11, 0.4)
    log, process, first = _Log(rng), _Process(rng, start, 9000), rng.randrange(10, 300)
    for t in _ticks(start):
        load, age = traffic.at(t), (t.minute - first) % 360
        rebuild = age < 9 + t.day % 4
        hits = [
            {
                "title": " ".join(rng.choices(WORDS, k=rng.randint(1, 6))),
                "score": rng.choice((1, round(rng.random(), 3))),
            }
            for _ in range(rng.randint(0, 10))
        ]
        body: dict[str, object] = {"total": len(hits) * rng.randint(1, 90), "hits": hits}
        body["facets"] = {word: rng.randint(1, 50) for word in rng.sample(WORDS, rng.randint(0, 5))}
        if not hits:
            body["suggestion"] = rng.choice([*WORDS, None])
        answer = _json(body, latency.draw((2.6 if rebuild else 1) * (0.8 + 0.5 * load)))
        lines = 1 + _poisson(rng, 90 * load) + (rng.randint(20, 300) if rebuild else 0)
        memory = 2100 + 150 * load + (900 * min(1, (age + 1) / 5) if rebuild else 0)
        use = process.use(t, 2 + 9 * load + 70 * rebuild, memory, 210 + 60 * load + 120 * rebuild)
        activity = log.add(lines, _poisson(rng, 0.02))
        yield ServiceMinute(
            t.at, {"/search/sample": answer}, {"/var/log/search.log": activity}, use
        )


def _shop_pages(rng: random.Random, start: float) -> Iterator[ServiceMinute]:
    """HTML with tokens, changing banners and lists; a campaign on Thursday evening."""
    traffic, latency = _Traffic(rng, 19.5, 0.04, 1.2), _Latency(rng, 0.18, 0.3)
    log, process, banner, teasers = _Log(rng), _Process(rng, start, 7000), "", 8
    for t in _ticks(start):
        load = traffic.at(t)
        if t.weekday == 3 and t.within(1110, 150):
            load *= 1 + 2.2 * math.exp(-(t.minute - 1110) / 60)
        if t.minute in (0, 7 * 60, 18 * 60):
            banner = rng.choice(("", "", f"<div class='promo'>{rng.choice(WORDS)} week</div>"))
            teasers = rng.randint(4, 24)
        items = "".join(
            f"<li>{rng.choice(WORDS)} {rng.randint(3, 400)}.00</li>" for _ in range(teasers)
        )
        token = f"<input type='hidden' name='token' value='{rng.getrandbits(128):032x}'>"
        answers = {
            "/": _html("Shop", f"{banner}<ul>{items}</ul>", latency.draw(0.7 + 0.5 * load)),
            "/login": _html("Sign in", f"<form>{token}</form>", latency.draw(0.4)),
            "/cart": Answer(302, HTML_TYPE, b"", latency.draw(0.2)),
        }
        lines = 3 + _poisson(rng, 420 * load)
        activity = log.add(lines, _poisson(rng, 0.0015 * lines))
        use = process.use(t, 1 + 11 * load, 640 + 210 * load, 90 + 170 * load)
        yield ServiceMinute(t.at, answers, {"/var/log/shop/web.log": activity}, use)


def _static_files(rng: random.Random, start: float) -> Iterator[ServiceMinute]:
    """Files that do not change for days, then change at once; bursts of 404 from scanners."""
    traffic, latency = _Traffic(rng, 15, 0.1), _Latency(rng, 0.003, 0.5)
    access, errors, process = _Log(rng), _Log(rng, 900), _Process(rng, start, 160)
    script, logo, scan = rng.randbytes(2400).hex(), rng.randbytes(3100), 0
    for t in _ticks(start):
        load = traffic.at(t)
        if t.weekday == 2 and t.minute == 14 * 60 + 20:
            script = rng.randbytes(rng.randint(2000, 2900)).hex()
        scan = rng.randint(20, 400) if rng.random() < 0.002 else scan // 3
        answers = {
            "/app.js": Answer(200, "text/javascript", script.encode(), latency.draw()),
            "/logo.png": Answer(200, "image/png", logo, latency.draw()),
            "/LICENSE": Answer(200, "", b"All rights reserved.\n", latency.draw()),
        }
        missing = _poisson(rng, 0.3 * load) + scan
        logs = {
            "/var/log/static/access.log": access.add(3 + scan + _poisson(rng, 800 * load)),
            "/var/log/static/error.log": errors.add(missing, missing),
        }
        use = process.use(t, 0.05 + 0.3 * load, 23 + load, 18 + 30 * load + rng.randint(0, 4))
        yield ServiceMinute(t.at, answers, logs, use)


def _edge_proxy(rng: random.Random, start: float) -> Iterator[ServiceMinute]:
    """Constant 301 and 401 answers; thousands of lines; descriptors follow the connections."""
    traffic, latency, log = _Traffic(rng, 16, 0.15), _Latency(rng, 0.012, 0.35), _Log(rng)
    process, crawler = _Process(rng, start, 11000), 0
    for t in _ticks(start):
        crawler = rng.randint(15, 70) if rng.random() < 0.0015 else max(0, crawler - 1)
        load = traffic.at(t) + (0.35 if crawler else 0)
        answers = {
            "/": Answer(301, "text/html", b"<h1>301 Moved Permanently</h1>", latency.draw(0.5)),
            "/private": Answer(401, "text/plain", b"Unauthorized\n", latency.draw(0.6)),
            "/api/ping": _json({"pong": True}, latency.draw(1 + load)),
        }
        lines = 3 + _poisson(rng, 5200 * load)
        refused = _poisson(rng, 0.0006 * lines) + (
            rng.randint(2, 25) if rng.random() < 0.004 else 0
        )
        use = process.use(t, 2 + 10 * load, 140 + 60 * load, 120 + _poisson(rng, 900 * load))
        yield ServiceMinute(
            t.at, answers, {"/var/log/edge/proxy.log": log.add(lines, refused)}, use
        )


def _mail_queue(rng: random.Random, start: float) -> Iterator[ServiceMinute]:
    """Newsletters fill the queue on two mornings; a deferred queue is never quite empty."""
    traffic, log, process = _Traffic(rng, 11, 0.05, 0.4), _Log(rng), _Process(rng, start, 900)
    active, deferred, rate = 0, rng.randint(10, 60), 420
    for t in _ticks(start):
        if t.minute == 0:
            rate = rng.randint(340, 520)
        active += _poisson(rng, 14 * traffic.at(t))
        if t.weekday in (1, 3) and t.within(600, 12):
            active += rng.randint(900, 2100)
        sent = min(active, _poisson(rng, rate))
        soft = sum(rng.random() < 0.012 for _ in range(sent))
        retried = rng.randint(0, deferred) if t.minute % 30 == 4 else 0
        active, deferred = active - sent, max(0, deferred + soft - round(0.7 * retried))
        activity = log.add(sent * 4 + retried + (t.minute % 10 == 0), soft + retried // 8)
        use = process.use(t, 0.1 + sent * 0.02, 48 + sent * 0.06, 40 + sent * 0.12)
        queues = {"active": active, "/var/spool/mail/deferred": deferred}
        yield ServiceMinute(t.at, {}, {"/var/log/mail.log": activity}, use, queues)


def _thumbnail_worker(rng: random.Random, start: float) -> Iterator[ServiceMinute]:
    """Idle for hours, then whole albums arrive at once; memory depends on the picture at hand."""
    traffic, log, process = (
        _Traffic(rng, 18, 0.01, 2.0),
        _Log(rng, 1800),
        _Process(rng, start, 1500),
    )
    waiting = 0
    for t in _ticks(start):
        if rng.random() < 0.012 * traffic.at(t):
            waiting += min(4000, int(rng.paretovariate(0.9) * 12))
        done = min(waiting, rng.randint(25, 75))
        waiting -= done
        broken = sum(rng.random() < 0.004 for _ in range(done))
        memory = 85 + (rng.lognormvariate(5.0, 0.4) if done else 0)
        use = process.use(t, 0.02 + done * 0.9, memory, 22 + (rng.randint(4, 30) if done else 0))
        logs = {"/var/log/thumbnails.log": log.add(done + broken * 6, broken)}
        yield ServiceMinute(t.at, {}, logs, use, {"thumbnails": waiting})


def _nightly_report(rng: random.Random, start: float) -> Iterator[ServiceMinute]:
    """One run each night of varying length, longer on Monday; silent for the rest of the day."""
    log, process, memory = _Log(rng, 79000), _Process(rng, start, 2300), 130.0
    first, length = 120, 50
    for t in _ticks(start):
        if t.minute == 0:
            first = 120 + rng.randint(0, 25)
            length = round(rng.uniform(35, 75) * (1.7 if t.weekday == 0 else 1))
        lines = errors = 0
        busy = t.within(first, length)
        if busy:
            memory = min(2900, memory + rng.uniform(0, 90))
            lines = rng.choice((0, 1, 3, 40, 250))
            errors = int(rng.random() < 0.03)
        elif memory > 170:
            memory = 130 + 0.9 * (memory - 130) if rng.random() < 0.3 else memory
        use = process.use(t, 44 if busy else 0.01, memory, rng.randint(30, 55) if busy else 14)
        queues = {"reports": max(0, round(60 * (1 - (t.minute - first) / length))) if busy else 0}
        activity = log.add(lines, errors)
        yield ServiceMinute(t.at, {}, {"/var/log/report/nightly.log": activity}, use, queues)


def _cron_importer(rng: random.Random, start: float) -> Iterator[ServiceMinute]:
    """Working days only, four runs a day with jitter; the spool folder fills between the runs."""
    log, process, spool = _Log(rng, 200000), _Process(rng, start, 60), rng.randint(0, 90)
    begin, running = 0, 0
    for t in _ticks(start):
        if t.minute % 360 == 0:
            begin = t.minute + rng.randint(5, 40)
        spool += _poisson(rng, 0.05 if t.weekday >= 5 else 0.5 if t.within(420, 720) else 0.08)
        if t.minute == begin and t.weekday < 5:
            running = rng.randint(2, 14)
        lines = errors = 0
        if running:
            running -= 1
            taken = min(spool, rng.randint(10, 60)) if running else spool
            spool, lines = spool - taken, 2 + taken * rng.randint(1, 3)
            errors = sum(rng.random() < 0.01 for _ in range(taken))
        use = process.use(t, 20 if lines else 0, 75 if lines else 31, 26 if lines else 9)
        logs = {"/var/log/importer.log": log.add(lines, errors)}
        yield ServiceMinute(t.at, {}, logs, use, {"/var/spool/importer": spool})


def _orders_db(rng: random.Random, start: float) -> Iterator[ServiceMinute]:
    """Client mistakes in the log, checkpoints, a nightly backup, a restart in the patch window."""
    traffic, log, process = _Traffic(rng, 16, 0.1, 1.1), _Log(rng), _Process(rng, start, 21000)
    warm, backup = 0.9, 70
    for t in _ticks(start):
        load = traffic.at(t)
        if t.minute == 0:
            backup = rng.randint(66, 74)
        restarted = t.day == 8 and t.minute == 255
        if restarted:
            process.restart(t)
            warm = 0.12
        warm += (1 - warm) * 0.002 * load
        saving, vacuum = t.within(backup, 35 + t.day % 9), rng.random() < 0.03
        errors = _poisson(rng, 0.5 * load) + (rng.randint(5, 30) if rng.random() < 0.001 else 0)
        lines = 2 * errors + _poisson(rng, 3 * load) + 2 * (t.minute % 5 == 3) + 4 * vacuum
        lines += 14 * restarted
        descriptors = 900 + 1400 * load * warm + (150 if saving else 0) + rng.randint(-30, 30)
        cpu = 3 + 25 * load + 40 * saving + rng.uniform(5, 25) * vacuum
        use = process.use(t, cpu, 900 + 7200 * warm + 600 * load, descriptors)
        yield ServiceMinute(t.at, {}, {"/var/log/database.log": log.add(lines, errors)}, use)


def _session_cache(rng: random.Random, start: float) -> Iterator[ServiceMinute]:
    """Memory grows for days up to its bound; each snapshot costs memory for some minutes."""
    traffic, log, process = _Traffic(rng, 19, 0.08), _Log(rng), _Process(rng, start, 5000)
    bound, used, fork = 4096.0, rng.uniform(500, 1100), 0
    for t in _ticks(start):
        load = traffic.at(t)
        used = min(bound, used + rng.uniform(0.2, 1.6) * load)
        if used >= bound:
            used -= rng.uniform(0, 12)
        fork = max(0, fork - 1)
        saved = rng.random() < 1 / 60 * (0.3 + load)
        if saved:
            fork = rng.randint(1, 3)
        use = process.use(
            t,
            1 + 6 * load + 8 * saved,
            used * (1.25 if fork else 1) + 20,
            30 + _poisson(rng, 260 * (0.4 + load)),
        )
        activity = log.add((5 if saved else 0) + (rng.random() < 0.01))
        yield ServiceMinute(t.at, {}, {"/var/log/cache/server.log": activity}, use)


def _billing_service(rng: random.Random, start: float) -> Iterator[ServiceMinute]:
    """Saw-tooth memory; a slow answer when a full collection runs; long stack traces."""
    traffic, latency = _Traffic(rng, 10.5, 0.06, 0.25), _Latency(rng, 0.02, 0.3)
    log, process, floor, young = _Log(rng), _Process(rng, start, 7200), 900.0, 0.0
    free = rng.randrange(30 << 30, 60 << 30)
    for t in _ticks(start):
        load = traffic.at(t)
        run = t.weekday == 0 and t.within(300, 55)
        young += rng.uniform(3, 9) + 130 * load + (200 if run else 0)
        pause = 0.0
        if young > 1300:
            young, floor = rng.uniform(20, 90), floor + rng.uniform(0, 12)
        if floor > 1250:
            floor, pause = rng.uniform(860, 930), rng.uniform(0.8, 2.8)
        free += (9 << 30) if t.minute == 90 else -rng.randrange(0, 12 << 20)
        free = min(free, 70 << 30)
        parts = {"db": {"status": "UP"}, "disk": {"status": "UP", "free": free}}
        answers = {
            "/actuator/health": _json(
                {"status": "UP", "components": parts},
                latency.draw() + round(pause, 3),
                "application/vnd.spring-boot.actuator.v3+json",
            )
        }
        traces = _poisson(rng, 0.05 * load)
        lines = (
            1
            + _poisson(rng, 45 * load)
            + traces * rng.randint(15, 90)
            + (rng.randint(150, 400) if run else 0)
        )
        use = process.use(t, 1.5 + 12 * load + 35 * run + 9 * pause, floor + young, 310 + 45 * load)
        yield ServiceMinute(t.at, answers, {"/var/log/billing.log": log.add(lines, traces)}, use)


def _payment_client(rng: random.Random, start: float) -> Iterator[ServiceMinute]:
    """Declined cards are logged as errors all day; the provider's maintenance adds retries."""
    traffic, latency = _Traffic(rng, 18, 0.07, 1.2), _Latency(rng, 0.35, 0.4)
    log, process, pending = _Log(rng), _Process(rng, start, 1300), 3
    for t in _ticks(start):
        load = traffic.at(t)
        maintenance = t.weekday == 6 and t.within(190, 18 + t.day % 5)
        payments = _poisson(rng, 22 * load)
        pending = pending + payments if maintenance else _poisson(rng, 2 * load) + pending // 2
        declined = sum(rng.random() < 0.07 for _ in range(payments)) + _poisson(rng, 0.15)
        errors = declined + (rng.randint(1, 4) if maintenance else 0)
        state = {"provider": "maintenance" if maintenance else "ok", "pending": pending}
        answers = {"/payments/state": _json(state, latency.draw(1.4 if maintenance else 1))}
        use = process.use(t, 0.4 + 2 * load, 310 + 25 * load + pending * 0.05, 55 + 35 * load)
        logs = {"/var/log/payments.log": log.add(1 + 3 * payments + errors, errors)}
        yield ServiceMinute(t.at, answers, logs, use, {"payment-retries": pending})


def _intranet_wiki(rng: random.Random, start: float) -> Iterator[ServiceMinute]:
    """Unused at night, on weekends and on one public holiday; the first page of a day is slow."""
    latency, log, process = _Latency(rng, 0.22, 0.35), _Log(rng, 190000), _Process(rng, start, 420)
    holiday, opening, idle, edits = rng.choice((9, 10, 11)), 430, 600, rng.randint(2000, 9000)
    recent: deque[str] = deque(maxlen=12)
    for t in _ticks(start):
        if t.minute == 0:
            opening = rng.randint(400, 460)
        office = t.weekday < 5 and t.day != holiday and t.within(opening, 660)
        lunch = 0.35 if t.within(720, 55) else 1.0
        people = _poisson(rng, 6 * lunch) if office else int(rng.random() < 0.0004)
        idle, cold = (0, idle > 300) if people else (idle + 1, False)
        if rng.random() < 0.05 * people:
            edits += 1
            recent.appendleft(f"<p>{rng.choice(WORDS)} edited</p>")
        inner = f"<nav>{edits} changes</nav>{''.join(recent)}<footer>{_iso(t.at)[:10]}</footer>"
        slow = 9.0 if cold else 1.0 + 0.05 * people
        errors = int(people > 0 and rng.random() < 0.01)
        use = process.use(t, 0.02 + 0.5 * people, 95 + 14 * min(people, 9), 25 + 3 * people)
        logs = {"/var/log/wiki/app.log": log.add(people * rng.randint(1, 5), errors)}
        yield ServiceMinute(t.at, {"/": _html("Wiki", inner, latency.draw(slow))}, logs, use)


def _catalogue_api(rng: random.Random, start: float) -> Iterator[ServiceMinute]:
    """Released twice on working days; bodies change a little; rarely one 503 during the switch."""
    traffic, latency = _Traffic(rng, 14, 0.08, 0.8), _Latency(rng, 0.045)
    log, process, build, age = _Log(rng), _Process(rng, start, 3300), rng.randint(200, 900), 5000
    extras, pool, releases = {"rating"}, ["badge", "rating", "delivery_days", "eco_label"], (0, 0)
    for t in _ticks(start):
        load, age = traffic.at(t), age + 1
        if t.minute == 0:
            releases = (rng.randint(590, 700), rng.randint(830, 990))
        released = t.weekday < 5 and t.minute in releases[: 1 if t.weekday == 4 else 2]
        if released:
            process.restart(t)
            build, age = build + rng.randint(1, 9), 0
            if rng.random() < 0.4:
                extras ^= {rng.choice(pool)}
        product = {"name": rng.choice(WORDS), "price": rng.randint(5, 90), "in_stock": load > 0.2}
        product.update((key, rng.randint(1, 5)) for key in sorted(extras))
        kind = JSON_TYPE if build % 2 else "application/json; charset=utf-8"
        body = {"version": f"2.{build}", "product": product}
        answer = _json(body, latency.draw(4.0 if age < 3 else 1 + 0.3 * load), kind)
        if released and rng.random() < 0.15:
            answer = Answer(503, "text/html", b"<h1>503 Service Unavailable</h1>", 0.002)
        errors = _poisson(rng, 0.03 * load) + (rng.randint(0, 6) if released else 0)
        lines = 1 + _poisson(rng, 150 * load) + (rng.randint(60, 140) if released else 0)
        memory = 240 + 170 * (1 - math.exp(-age / 90)) + 30 * load
        use = process.use(t, 0.5 + 5 * load + (20 if age < 2 else 0), memory, 60 + 50 * load)
        activity = log.add(lines, errors)
        yield ServiceMinute(
            t.at, {"/product/featured": answer}, {"/var/log/catalogue.log": activity}, use
        )


def _log_shipper(rng: random.Random, start: float) -> Iterator[ServiceMinute]:
    """Restarted by log rotation each morning, which leaves a small backlog for a few minutes."""
    traffic, log, process = _Traffic(rng, 15, 0.2, 0.7), _Log(rng), _Process(rng, start, 500)
    backlog, age, rotation = 0, 1200, 385
    for t in _ticks(start):
        load, age = traffic.at(t), age + 1
        rotated = t.minute == rotation + (22 if t.weekday == 6 else 0)
        if rotated:
            process.restart(t)
            backlog, age = backlog + rng.randint(300, 2500), 0
        backlog = max(0, backlog + _poisson(rng, 400 * load) - rng.randint(500, 900))
        lines = (rng.randint(9, 15) if rotated else 0) + (t.minute % 5 == 0) + (rng.random() < 0.03)
        errors = int(rotated and rng.random() < 0.4) + (rng.random() < 0.002)
        files = 35 + (12 if age < 20 else 0) + rng.randint(0, 3)
        use = process.use(t, 0.3 + load, 38 + min(30, age * 0.05) + backlog * 0.004, files)
        logs = {"/var/log/shipper.log": log.add(lines, errors)}
        yield ServiceMinute(t.at, {}, logs, use, {"/var/spool/shipper": backlog})


def _payroll_portal(rng: random.Random, start: float) -> Iterator[ServiceMinute]:
    """Weekly pattern: nearly unused until Friday, a batch on Friday, a restart on Sunday."""
    traffic, latency = _Traffic(rng, 13, 0.01, 0.15), _Latency(rng, 0.3, 0.3)
    log, process, slips, reports = _Log(rng), _Process(rng, start, 300), 0, 0
    for t in _ticks(start):
        load = traffic.at(t) * (1.0 if t.weekday == 4 else 0.12)
        if t.weekday == 4 and t.minute == 15 * 60:
            slips, reports = rng.randint(3000, 5200), reports + 1
        if t.weekday == 6 and t.minute == 240:
            process.restart(t)
        done = min(slips, rng.randint(20, 60))
        slips -= done
        notice = "<p class='notice'>Payslips are being prepared.</p>" if slips else ""
        rows = "".join(f"<tr><td>week {week}</td></tr>" for week in range(30 + reports))
        answers = {"/": _html("Payroll", f"{notice}<table>{rows}</table>", latency.draw(1 + load))}
        errors = _poisson(rng, 0.02 * load) + int(done > 0 and rng.random() < 0.03)
        use = process.use(
            t, 0.2 + 6 * load + 0.4 * done, 420 + 260 * load + 3 * done, 45 + 80 * load
        )
        logs = {"/var/log/payroll.log": log.add(1 + _poisson(rng, 70 * load) + done, errors)}
        yield ServiceMinute(t.at, answers, logs, use, {"payslips": slips})


def _geo_lookup(rng: random.Random, start: float) -> Iterator[ServiceMinute]:
    """Heavy-tailed times from an outside source; a deep body with keys that depend on the place."""
    traffic, log, process = _Traffic(rng, 17, 0.3), _Log(rng), _Process(rng, start, 700)
    for t in _ticks(start):
        load, seconds = traffic.at(t), min(12.0, 0.035 * rng.paretovariate(1.35))
        place: dict[str, object] = {"lat": round(rng.uniform(36, 70), rng.randint(1, 6)), "lon": 10}
        place["address"] = {
            key: rng.choice(WORDS)
            for key in rng.sample(("city", "town", "road", "county", "postcode", "suburb"), 4)
        }
        if rng.random() < 0.1:
            place["alternatives"] = [
                {"name": word} for word in rng.sample(WORDS, rng.randint(1, 9))
            ]
        timeouts = _poisson(rng, 0.25 * load) + (rng.randint(1, 6) if seconds > 6 else 0)
        activity = log.add(1 + _poisson(rng, 40 * load) + timeouts, timeouts)
        answers = {"/lookup/latest": _json(place if rng.random() < 0.97 else {}, round(seconds, 4))}
        use = process.use(t, 0.3 + load, 120 + 10 * load, 30 + 12 * load + 5 * seconds)
        yield ServiceMinute(t.at, answers, {"/var/log/geo.log": activity}, use)


def _status_page(rng: random.Random, start: float) -> Iterator[ServiceMinute]:
    """Health pages with times, counters and parts in any order; counters restart at a patch."""
    traffic, latency = _Traffic(rng, 12, 0.2), _Latency(rng, 0.008, 0.4)
    log, process, uptime, total = _Log(rng), _Process(rng, start, 200), 900000, 5_000_000
    for t in _ticks(start):
        load, uptime = traffic.at(t), uptime + 60
        if t.day == 8 and t.minute == 251:
            process.restart(t)
            uptime, total = rng.randint(5, 45), 0
        served = 3 + _poisson(rng, 70 * load)
        total += served
        parts = [(name, {"ok": True, "ms": rng.randint(1, 30)}) for name in ("db", "cache", "disk")]
        rng.shuffle(parts)
        health: dict[str, object] = {
            "time": _iso(t.at - 5),
            "uptime_s": uptime,
            "checks": dict(parts),
        }
        if uptime < 600:
            health["warnings"] = ["cache is cold"]
        metrics = (
            f"# TYPE requests_total counter\nrequests_total {total}\n"
            f"process_uptime_seconds {uptime}\nload {load:.4f}\n"
        )
        answers = {
            "/health": _json(health, latency.draw()),
            "/metrics": Answer(200, "text/plain; version=0.0.4", metrics.encode(), latency.draw()),
            "/version": Answer(200, "text/plain", b"1.14.2\n", latency.draw(0.5)),
        }
        activity = log.add(served, int(rng.random() < 0.001))
        use = process.use(t, 0.1 + 0.3 * load, 52 + 4 * load, 16 + rng.randint(0, 5))
        yield ServiceMinute(t.at, answers, {"/var/log/status.log": activity}, use)


def _chat_gateway(rng: random.Random, start: float) -> Iterator[ServiceMinute]:
    """Long connections with an evening peak; clients reconnect after a release on Wednesday."""
    traffic, latency = _Traffic(rng, 21, 0.06, 1.25), _Latency(rng, 0.01, 0.4)
    log, process, connected = _Log(rng), _Process(rng, start, 11000), 900.0
    motd: str | None = None
    for t in _ticks(start):
        target = 3800 * traffic.at(t)
        if t.minute == 9 * 60:
            motd = rng.choice((None, "", f"{rng.choice(WORDS)} room is open"))
        released = t.weekday == 2 and t.minute == 20 * 60 + 10
        if released:
            process.restart(t)
            connected *= 0.2
        if rng.random() < 0.001:
            connected *= rng.uniform(0.75, 0.95)
        joined = (target - connected) * 0.3
        connected = max(0.0, connected + joined + rng.gauss(0, 6))
        rooms = {rng.choice(WORDS): rng.randint(1, 90) for _ in range(int(connected) // 400)}
        stats = {"connected": int(connected), "rooms": rooms, "motd": motd}
        answers = {"/stats": _json(stats, latency.draw(1 + connected / 4000))}
        lines = 1 + _poisson(rng, 4 + 0.02 * connected + max(0.0, joined)) + 40 * released
        activity = log.add(lines, _poisson(rng, 0.002 * lines))
        use = process.use(t, 1 + connected / 250, 180 + connected * 0.06, 60 + connected)
        yield ServiceMinute(t.at, answers, {"/var/log/chat/gateway.log": activity}, use)


@dataclass(frozen=True)
class _GeneratedService:
    """One service whose minutes come from a generator function."""

    name: str
    seed: int
    generate: Callable[[random.Random, float], Iterator[ServiceMinute]]

    def minutes(self, start: float, count: int) -> Iterator[ServiceMinute]:
        return islice(self.generate(random.Random(f"{self.seed}/{self.name}"), start), count)


_GENERATORS = (
    _orders_api, _search_api, _shop_pages, _static_files, _edge_proxy, _mail_queue,
    _thumbnail_worker, _nightly_report, _cron_importer, _orders_db, _session_cache,
    _billing_service, _payment_client, _intranet_wiki, _catalogue_api, _log_shipper,
    _payroll_portal, _geo_lookup, _status_page, _chat_gateway,
)  # fmt: skip


def services(seed: int) -> Sequence[Service]:
    """The twenty services for one seed."""
    return [
        _GeneratedService(function.__name__.strip("_").replace("_", "-"), seed, function)
        for function in _GENERATORS
    ]
