"""Healthy services, second half: stores, services with releases, portals and gateways."""

import math
import random
from collections import deque
from collections.abc import Iterator

from interface import Answer, ServiceMinute
from service_parts import (
    JSON_TYPE,
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


def orders_db(rng: random.Random, start: float) -> Iterator[ServiceMinute]:
    """Client mistakes in the log, checkpoints, a nightly backup, a restart in the patch window."""
    traffic, log, process = Traffic(rng, 16, 0.1, 1.1), Log(rng), Process(rng, start, 21000)
    warm, backup = 0.9, 70
    for t in ticks(start):
        load = traffic.at(t)
        if t.minute == 0:
            backup = rng.randint(66, 74)
        restarted = t.day == 8 and t.minute == 255
        if restarted:
            process.restart(t)
            warm = 0.12
        warm += (1 - warm) * 0.002 * load
        saving, vacuum = t.within(backup, 35 + t.day % 9), rng.random() < 0.03
        errors = draw_poisson(rng, 0.5 * load) + (rng.randint(5, 30) if rng.random() < 0.001 else 0)
        lines = 2 * errors + draw_poisson(rng, 3 * load) + 2 * (t.minute % 5 == 3) + 4 * vacuum
        lines += 14 * restarted
        descriptors = 900 + 1400 * load * warm + (150 if saving else 0) + rng.randint(-30, 30)
        cpu = 3 + 25 * load + 40 * saving + rng.uniform(5, 25) * vacuum
        use = process.use(t, cpu, 900 + 7200 * warm + 600 * load, descriptors)
        yield ServiceMinute(t.at, {}, {"/var/log/database.log": log.add(lines, errors)}, use)


def session_cache(rng: random.Random, start: float) -> Iterator[ServiceMinute]:
    """Memory grows for days up to its bound; each snapshot costs memory for some minutes."""
    traffic, log, process = Traffic(rng, 19, 0.08), Log(rng), Process(rng, start, 5000)
    bound, used, fork = 4096.0, rng.uniform(500, 1100), 0
    for t in ticks(start):
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
            30 + draw_poisson(rng, 260 * (0.4 + load)),
        )
        activity = log.add((5 if saved else 0) + (rng.random() < 0.01))
        yield ServiceMinute(t.at, {}, {"/var/log/cache/server.log": activity}, use)


def billing_service(rng: random.Random, start: float) -> Iterator[ServiceMinute]:
    """Saw-tooth memory; a slow answer when a full collection runs; long stack traces."""
    traffic, latency = Traffic(rng, 10.5, 0.06, 0.25), Latency(rng, 0.02, 0.3)
    log, process, floor, young = Log(rng), Process(rng, start, 7200), 900.0, 0.0
    free = rng.randrange(30 << 30, 60 << 30)
    for t in ticks(start):
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
            "/actuator/health": json_answer(
                {"status": "UP", "components": parts},
                latency.draw() + round(pause, 3),
                "application/vnd.spring-boot.actuator.v3+json",
            )
        }
        traces = draw_poisson(rng, 0.05 * load)
        lines = (
            1
            + draw_poisson(rng, 45 * load)
            + traces * rng.randint(15, 90)
            + (rng.randint(150, 400) if run else 0)
        )
        use = process.use(t, 1.5 + 12 * load + 35 * run + 9 * pause, floor + young, 310 + 45 * load)
        yield ServiceMinute(t.at, answers, {"/var/log/billing.log": log.add(lines, traces)}, use)


def payment_client(rng: random.Random, start: float) -> Iterator[ServiceMinute]:
    """Declined cards are logged as errors all day; the provider's maintenance adds retries."""
    traffic, latency = Traffic(rng, 18, 0.07, 1.2), Latency(rng, 0.35, 0.4)
    log, process, pending = Log(rng), Process(rng, start, 1300), 3
    for t in ticks(start):
        load = traffic.at(t)
        maintenance = t.weekday == 6 and t.within(190, 18 + t.day % 5)
        payments = draw_poisson(rng, 22 * load)
        pending = pending + payments if maintenance else draw_poisson(rng, 2 * load) + pending // 2
        declined = sum(rng.random() < 0.07 for _ in range(payments)) + draw_poisson(rng, 0.15)
        errors = declined + (rng.randint(1, 4) if maintenance else 0)
        state = {"provider": "maintenance" if maintenance else "ok", "pending": pending}
        answers = {"/payments/state": json_answer(state, latency.draw(1.4 if maintenance else 1))}
        use = process.use(t, 0.4 + 2 * load, 310 + 25 * load + pending * 0.05, 55 + 35 * load)
        logs = {"/var/log/payments.log": log.add(1 + 3 * payments + errors, errors)}
        yield ServiceMinute(t.at, answers, logs, use, {"payment-retries": pending})


def intranet_wiki(rng: random.Random, start: float) -> Iterator[ServiceMinute]:
    """Unused at night, on weekends and on one public holiday; the first page of a day is slow."""
    latency, log, process = Latency(rng, 0.22, 0.35), Log(rng, 190000), Process(rng, start, 420)
    holiday, opening, idle, edits = rng.choice((9, 10, 11)), 430, 600, rng.randint(2000, 9000)
    recent: deque[str] = deque(maxlen=12)
    for t in ticks(start):
        if t.minute == 0:
            opening = rng.randint(400, 460)
        office = t.weekday < 5 and t.day != holiday and t.within(opening, 660)
        lunch = 0.35 if t.within(720, 55) else 1.0
        people = draw_poisson(rng, 6 * lunch) if office else int(rng.random() < 0.0004)
        idle, cold = (0, idle > 300) if people else (idle + 1, False)
        if rng.random() < 0.05 * people:
            edits += 1
            recent.appendleft(f"<p>{rng.choice(WORDS)} edited</p>")
        inner = f"<nav>{edits} changes</nav>{''.join(recent)}<footer>{iso_time(t.at)[:10]}</footer>"
        slow = 9.0 if cold else 1.0 + 0.05 * people
        errors = int(people > 0 and rng.random() < 0.01)
        use = process.use(t, 0.02 + 0.5 * people, 95 + 14 * min(people, 9), 25 + 3 * people)
        logs = {"/var/log/wiki/app.log": log.add(people * rng.randint(1, 5), errors)}
        yield ServiceMinute(t.at, {"/": html_answer("Wiki", inner, latency.draw(slow))}, logs, use)


def catalogue_api(rng: random.Random, start: float) -> Iterator[ServiceMinute]:
    """Released twice on working days; bodies change a little; rarely one 503 during the switch."""
    traffic, latency = Traffic(rng, 14, 0.08, 0.8), Latency(rng, 0.045)
    log, process, build, age = Log(rng), Process(rng, start, 3300), rng.randint(200, 900), 5000
    extras, pool, releases = {"rating"}, ["badge", "rating", "delivery_days", "eco_label"], (0, 0)
    for t in ticks(start):
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
        answer = json_answer(body, latency.draw(4.0 if age < 3 else 1 + 0.3 * load), kind)
        if released and rng.random() < 0.15:
            answer = Answer(503, "text/html", b"<h1>503 Service Unavailable</h1>", 0.002)
        errors = draw_poisson(rng, 0.03 * load) + (rng.randint(0, 6) if released else 0)
        lines = 1 + draw_poisson(rng, 150 * load) + (rng.randint(60, 140) if released else 0)
        memory = 240 + 170 * (1 - math.exp(-age / 90)) + 30 * load
        use = process.use(t, 0.5 + 5 * load + (20 if age < 2 else 0), memory, 60 + 50 * load)
        activity = log.add(lines, errors)
        yield ServiceMinute(
            t.at, {"/product/featured": answer}, {"/var/log/catalogue.log": activity}, use
        )


def log_shipper(rng: random.Random, start: float) -> Iterator[ServiceMinute]:
    """Restarted by log rotation each morning, which leaves a small backlog for a few minutes."""
    traffic, log, process = Traffic(rng, 15, 0.2, 0.7), Log(rng), Process(rng, start, 500)
    backlog, age, rotation = 0, 1200, 385
    for t in ticks(start):
        load, age = traffic.at(t), age + 1
        rotated = t.minute == rotation + (22 if t.weekday == 6 else 0)
        if rotated:
            process.restart(t)
            backlog, age = backlog + rng.randint(300, 2500), 0
        backlog = max(0, backlog + draw_poisson(rng, 400 * load) - rng.randint(500, 900))
        lines = (rng.randint(9, 15) if rotated else 0) + (t.minute % 5 == 0) + (rng.random() < 0.03)
        errors = int(rotated and rng.random() < 0.4) + (rng.random() < 0.002)
        files = 35 + (12 if age < 20 else 0) + rng.randint(0, 3)
        use = process.use(t, 0.3 + load, 38 + min(30, age * 0.05) + backlog * 0.004, files)
        logs = {"/var/log/shipper.log": log.add(lines, errors)}
        yield ServiceMinute(t.at, {}, logs, use, {"/var/spool/shipper": backlog})


def payroll_portal(rng: random.Random, start: float) -> Iterator[ServiceMinute]:
    """Weekly pattern: nearly unused until Friday, a batch on Friday, a restart on Sunday."""
    traffic, latency = Traffic(rng, 13, 0.01, 0.15), Latency(rng, 0.3, 0.3)
    log, process, slips, reports = Log(rng), Process(rng, start, 300), 0, 0
    for t in ticks(start):
        load = traffic.at(t) * (1.0 if t.weekday == 4 else 0.12)
        if t.weekday == 4 and t.minute == 15 * 60:
            slips, reports = rng.randint(3000, 5200), reports + 1
        if t.weekday == 6 and t.minute == 240:
            process.restart(t)
        done = min(slips, rng.randint(20, 60))
        slips -= done
        notice = "<p class='notice'>Payslips are being prepared.</p>" if slips else ""
        rows = "".join(f"<tr><td>week {week}</td></tr>" for week in range(30 + reports))
        answers = {
            "/": html_answer("Payroll", f"{notice}<table>{rows}</table>", latency.draw(1 + load))
        }
        errors = draw_poisson(rng, 0.02 * load) + int(done > 0 and rng.random() < 0.03)
        use = process.use(
            t, 0.2 + 6 * load + 0.4 * done, 420 + 260 * load + 3 * done, 45 + 80 * load
        )
        logs = {"/var/log/payroll.log": log.add(1 + draw_poisson(rng, 70 * load) + done, errors)}
        yield ServiceMinute(t.at, answers, logs, use, {"payslips": slips})


def geo_lookup(rng: random.Random, start: float) -> Iterator[ServiceMinute]:
    """Heavy-tailed times from an outside source; a deep body with keys that depend on the place."""
    traffic, log, process = Traffic(rng, 17, 0.3), Log(rng), Process(rng, start, 700)
    for t in ticks(start):
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
        timeouts = draw_poisson(rng, 0.25 * load) + (rng.randint(1, 6) if seconds > 6 else 0)
        activity = log.add(1 + draw_poisson(rng, 40 * load) + timeouts, timeouts)
        answers = {
            "/lookup/latest": json_answer(place if rng.random() < 0.97 else {}, round(seconds, 4))
        }
        use = process.use(t, 0.3 + load, 120 + 10 * load, 30 + 12 * load + 5 * seconds)
        yield ServiceMinute(t.at, answers, {"/var/log/geo.log": activity}, use)


def status_page(rng: random.Random, start: float) -> Iterator[ServiceMinute]:
    """Health pages with times, counters and parts in any order; counters restart at a patch."""
    traffic, latency = Traffic(rng, 12, 0.2), Latency(rng, 0.008, 0.4)
    log, process, uptime, total = Log(rng), Process(rng, start, 200), 900000, 5_000_000
    for t in ticks(start):
        load, uptime = traffic.at(t), uptime + 60
        if t.day == 8 and t.minute == 251:
            process.restart(t)
            uptime, total = rng.randint(5, 45), 0
        served = 3 + draw_poisson(rng, 70 * load)
        total += served
        parts = [(name, {"ok": True, "ms": rng.randint(1, 30)}) for name in ("db", "cache", "disk")]
        rng.shuffle(parts)
        health: dict[str, object] = {
            "time": iso_time(t.at - 5),
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
            "/health": json_answer(health, latency.draw()),
            "/metrics": Answer(200, "text/plain; version=0.0.4", metrics.encode(), latency.draw()),
            "/version": Answer(200, "text/plain", b"1.14.2\n", latency.draw(0.5)),
        }
        activity = log.add(served, int(rng.random() < 0.001))
        use = process.use(t, 0.1 + 0.3 * load, 52 + 4 * load, 16 + rng.randint(0, 5))
        yield ServiceMinute(t.at, answers, {"/var/log/status.log": activity}, use)


def chat_gateway(rng: random.Random, start: float) -> Iterator[ServiceMinute]:
    """Long connections with an evening peak; clients reconnect after a release on Wednesday."""
    traffic, latency = Traffic(rng, 21, 0.06, 1.25), Latency(rng, 0.01, 0.4)
    log, process, connected = Log(rng), Process(rng, start, 11000), 900.0
    motd: str | None = None
    for t in ticks(start):
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
        answers = {"/stats": json_answer(stats, latency.draw(1 + connected / 4000))}
        lines = 1 + draw_poisson(rng, 4 + 0.02 * connected + max(0.0, joined)) + 40 * released
        activity = log.add(lines, draw_poisson(rng, 0.002 * lines))
        use = process.use(t, 1 + connected / 250, 180 + connected * 0.06, 60 + connected)
        yield ServiceMinute(t.at, answers, {"/var/log/chat/gateway.log": activity}, use)
