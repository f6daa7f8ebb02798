"""Healthy services, first half: web services, a proxy, and workers with queues and schedules."""

import math
import random
from collections import deque
from collections.abc import Iterator

from interface import Answer, ServiceMinute
from service_parts import (
    HTML_TYPE,
    WORDS,
    Latency,
    Log,
    Process,
    Traffic,
    draw_poisson,
    html_answer,
    iso_time,
    json_answer,
    ticks,
)


def _new_order(rng: random.Random, number: int) -> dict[str, object]:
    order: dict[str, object] = {"id": number, "state": "new", "shipped_at": None}
    order["total"] = round(rng.lognormvariate(3.4, 0.8), 2)
    order["items"] = [{"sku": rng.choice(WORDS), "qty": 1} for _ in range(rng.randint(1, 4))]
    if rng.random() < 0.2:
        order["coupon"] = rng.choice(WORDS).upper()
    if rng.random() < 0.02:
        order["gift_note"] = " ".join(rng.choices(WORDS, k=rng.randint(2, 40)))
    return order


def orders_api(rng: random.Random, start: float) -> Iterator[ServiceMinute]:
    """JSON with optional fields; the list is emptied at night; workers are recycled one by one."""
    traffic = Traffic(rng, rng.uniform(13, 19), 0.03, 1.3)
    latency, process = Latency(rng, 0.06), Process(rng, start, 2600)
    access, errors = Log(rng), Log(rng, 4000)
    recent: deque[dict[str, object]] = deque(maxlen=25)
    number, workers = rng.randrange(9000, 90000), [rng.uniform(60, 110) for _ in range(8)]
    for t in ticks(start):
        load = traffic.at(t)
        if t.minute == 185:
            recent.clear()
        for _ in range(draw_poisson(rng, 2.5 * load)):
            number += rng.choice((1, 1, 1, 2, 5))
            recent.appendleft(_new_order(rng, number))
        if recent and rng.random() < 0.3:
            rng.choice(recent).update(state="shipped", shipped_at=iso_time(t.at))
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
            following = json_answer(waiting, latency.draw(0.5))
        body = {"orders": list(recent), "more": len(recent) == 25}
        answers = {
            "/orders": json_answer(body, latency.draw(1 + 0.5 * load)),
            "/orders/next": following,
        }
        failed = draw_poisson(rng, 0.04 * load) + (rng.randint(1, 4) if patched else 0)
        logs = {
            "/var/log/orders/access.log": access.add(2 + draw_poisson(rng, 260 * load)),
            "/var/log/orders/error.log": errors.add(failed * rng.randint(1, 9), failed),
        }
        use = process.use(t, 0.3 + 4 * load, sum(workers), 70 + 40 * load + rng.randint(0, 9))
        yield ServiceMinute(t.at, answers, logs, use)


def search_api(rng: random.Random, start: float) -> Iterator[ServiceMinute]:
    """Number types and facet keys vary; an index rebuild every six hours slows the answers."""
    traffic, latency = Traffic(rng, 20, 0.12), Latency(rng, 0.11, 0.4)
    log, process, first = Log(rng), Process(rng, start, 9000), rng.randrange(10, 300)
    for t in ticks(start):
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
        answer = json_answer(body, latency.draw((2.6 if rebuild else 1) * (0.8 + 0.5 * load)))
        lines = 1 + draw_poisson(rng, 90 * load) + (rng.randint(20, 300) if rebuild else 0)
        memory = 2100 + 150 * load + (900 * min(1, (age + 1) / 5) if rebuild else 0)
        use = process.use(t, 2 + 9 * load + 70 * rebuild, memory, 210 + 60 * load + 120 * rebuild)
        activity = log.add(lines, draw_poisson(rng, 0.02))
        yield ServiceMinute(
            t.at, {"/search/sample": answer}, {"/var/log/search.log": activity}, use
        )


def shop_pages(rng: random.Random, start: float) -> Iterator[ServiceMinute]:
    """HTML with tokens, changing banners and lists; a campaign on Thursday evening."""
    traffic, latency = Traffic(rng, 19.5, 0.04, 1.2), Latency(rng, 0.18, 0.3)
    log, process, banner, teasers = Log(rng), Process(rng, start, 7000), "", 8
    for t in ticks(start):
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
            "/": html_answer("Shop", f"{banner}<ul>{items}</ul>", latency.draw(0.7 + 0.5 * load)),
            "/login": html_answer("Sign in", f"<form>{token}</form>", latency.draw(0.4)),
            "/cart": Answer(302, HTML_TYPE, b"", latency.draw(0.2)),
        }
        lines = 3 + draw_poisson(rng, 420 * load)
        activity = log.add(lines, draw_poisson(rng, 0.0015 * lines))
        use = process.use(t, 1 + 11 * load, 640 + 210 * load, 90 + 170 * load)
        yield ServiceMinute(t.at, answers, {"/var/log/shop/web.log": activity}, use)


def static_files(rng: random.Random, start: float) -> Iterator[ServiceMinute]:
    """Files that do not change for days, then change at once; bursts of 404 from scanners."""
    traffic, latency = Traffic(rng, 15, 0.1), Latency(rng, 0.003, 0.5)
    access, errors, process = Log(rng), Log(rng, 900), Process(rng, start, 160)
    script, logo, scan = rng.randbytes(2400).hex(), rng.randbytes(3100), 0
    for t in ticks(start):
        load = traffic.at(t)
        if t.weekday == 2 and t.minute == 14 * 60 + 20:
            script = rng.randbytes(rng.randint(2000, 2900)).hex()
        scan = rng.randint(20, 400) if rng.random() < 0.002 else scan // 3
        answers = {
            "/app.js": Answer(200, "text/javascript", script.encode(), latency.draw()),
            "/logo.png": Answer(200, "image/png", logo, latency.draw()),
            "/LICENSE": Answer(200, "", b"All rights reserved.\n", latency.draw()),
        }
        missing = draw_poisson(rng, 0.3 * load) + scan
        logs = {
            "/var/log/static/access.log": access.add(3 + scan + draw_poisson(rng, 800 * load)),
            "/var/log/static/error.log": errors.add(missing, missing),
        }
        use = process.use(t, 0.05 + 0.3 * load, 23 + load, 18 + 30 * load + rng.randint(0, 4))
        yield ServiceMinute(t.at, answers, logs, use)


def edge_proxy(rng: random.Random, start: float) -> Iterator[ServiceMinute]:
    """Constant 301 and 401 answers; thousands of lines; descriptors follow the connections."""
    traffic, latency, log = Traffic(rng, 16, 0.15), Latency(rng, 0.012, 0.35), Log(rng)
    process, crawler = Process(rng, start, 11000), 0
    for t in ticks(start):
        crawler = rng.randint(15, 70) if rng.random() < 0.0015 else max(0, crawler - 1)
        load = traffic.at(t) + (0.35 if crawler else 0)
        answers = {
            "/": Answer(301, "text/html", b"<h1>301 Moved Permanently</h1>", latency.draw(0.5)),
            "/private": Answer(401, "text/plain", b"Unauthorized\n", latency.draw(0.6)),
            "/api/ping": json_answer({"pong": True}, latency.draw(1 + load)),
        }
        lines = 3 + draw_poisson(rng, 5200 * load)
        refused = draw_poisson(rng, 0.0006 * lines) + (
            rng.randint(2, 25) if rng.random() < 0.004 else 0
        )
        use = process.use(t, 2 + 10 * load, 140 + 60 * load, 120 + draw_poisson(rng, 900 * load))
        yield ServiceMinute(
            t.at, answers, {"/var/log/edge/proxy.log": log.add(lines, refused)}, use
        )


def mail_queue(rng: random.Random, start: float) -> Iterator[ServiceMinute]:
    """Newsletters fill the queue on two mornings; a deferred queue is never quite empty."""
    traffic, log, process = Traffic(rng, 11, 0.05, 0.4), Log(rng), Process(rng, start, 900)
    active, deferred, rate = 0, rng.randint(10, 60), 420
    for t in ticks(start):
        if t.minute == 0:
            rate = rng.randint(340, 520)
        active += draw_poisson(rng, 14 * traffic.at(t))
        if t.weekday in (1, 3) and t.within(600, 12):
            active += rng.randint(900, 2100)
        sent = min(active, draw_poisson(rng, rate))
        soft = sum(rng.random() < 0.012 for _ in range(sent))
        retried = rng.randint(0, deferred) if t.minute % 30 == 4 else 0
        active, deferred = active - sent, max(0, deferred + soft - round(0.7 * retried))
        activity = log.add(sent * 4 + retried + (t.minute % 10 == 0), soft + retried // 8)
        use = process.use(t, 0.1 + sent * 0.02, 48 + sent * 0.06, 40 + sent * 0.12)
        queues = {"active": active, "/var/spool/mail/deferred": deferred}
        yield ServiceMinute(t.at, {}, {"/var/log/mail.log": activity}, use, queues)


def thumbnail_worker(rng: random.Random, start: float) -> Iterator[ServiceMinute]:
    """Idle for hours, then whole albums arrive at once; memory depends on the picture at hand."""
    traffic, log, process = (
        Traffic(rng, 18, 0.01, 2.0),
        Log(rng, 1800),
        Process(rng, start, 1500),
    )
    waiting = 0
    for t in ticks(start):
        if rng.random() < 0.012 * traffic.at(t):
            waiting += min(4000, int(rng.paretovariate(0.9) * 12))
        done = min(waiting, rng.randint(25, 75))
        waiting -= done
        broken = sum(rng.random() < 0.004 for _ in range(done))
        memory = 85 + (rng.lognormvariate(5.0, 0.4) if done else 0)
        use = process.use(t, 0.02 + done * 0.9, memory, 22 + (rng.randint(4, 30) if done else 0))
        logs = {"/var/log/thumbnails.log": log.add(done + broken * 6, broken)}
        yield ServiceMinute(t.at, {}, logs, use, {"thumbnails": waiting})


def nightly_report(rng: random.Random, start: float) -> Iterator[ServiceMinute]:
    """One run each night of varying length, longer on Monday; silent for the rest of the day."""
    log, process, memory = Log(rng, 79000), Process(rng, start, 2300), 130.0
    first, length = 120, 50
    for t in ticks(start):
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


def cron_importer(rng: random.Random, start: float) -> Iterator[ServiceMinute]:
    """Working days only, four runs a day with jitter; the spool folder fills between the runs."""
    log, process, spool = Log(rng, 200000), Process(rng, start, 60), rng.randint(0, 90)
    begin, running = 0, 0
    for t in ticks(start):
        if t.minute % 360 == 0:
            begin = t.minute + rng.randint(5, 40)
        spool += draw_poisson(rng, 0.05 if t.weekday >= 5 else 0.5 if t.within(420, 720) else 0.08)
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
