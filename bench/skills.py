"""The right skill among 200 for an incident, in many wordings; none when none fits; how quickly.

usage: python bench/skills.py [--json]
Skills are made from topics × technologies; an alert is worded anew from a skill's own vocabulary
with other words around it, other order, other endings, names and numbers. Alerts that no skill is
for come from topics that none of them has.
"""

import argparse
import json
import random
import statistics
import tempfile
import time
from pathlib import Path

from hermes.skills.discovery import SkillRoot
from hermes.skills.library import SkillLibrary
from hermes.skills.matching import SkillMatcher

_NAMES = """
nginx redis postgres mysql kafka rabbitmq elasticsearch mongodb haproxy docker kubernetes cassandra
memcached vault consul etcd jenkins grafana prometheus postfix
"""
TECHNOLOGIES = _NAMES.split()
TOPICS = {
    "certificate-expiry": ("certificate expired", "tls handshake rejected", "x509 validity over"),
    "disk-full": ("disk full", "no space left on device", "volume exhausted"),
    "replication-lag": ("replication lag growing", "replica behind primary", "stale follower"),
    "connection-limit": ("too many connections", "connection slots exhausted", "pool saturated"),
    "out-of-memory": ("out of memory kill", "rss climbing", "heap exhausted"),
    "auth-failure": ("authentication failed", "credentials rejected", "login denied"),
    "slow-queries": ("slow queries", "latency percentile breached", "query duration high"),
    "config-rejected": ("configuration syntax invalid", "refused to reload", "unknown directive"),
    "leader-lost": ("leader election stuck", "quorum lost", "split brain suspected"),
    "backup-missing": ("backup missing", "snapshot older than expected", "dump job silent"),
}  # fmt: skip
AROUND = (
    "[FIRING] {t}: {a} on {h}", "{h}: {a} ({t})", "{t} at {h}:{p}, {a} for {n} minutes",
    "P2 {a}, instance {h}:{p}, {t} cluster", "users report that {t} has {a} since {n} min",
    "{t} {a}; dashboard https://graphs.example/d/{p}", "on-call: {a} seen {n} times, {t}, {h}",
)  # fmt: skip
FOREIGN = (
    "quarterly report is late", "printer on floor {n} jammed", "coffee machine needs descaling",
    "parking barrier stays closed at gate {n}", "invoice {p} was paid twice",
    "new colleague has no badge", "meeting room {n} too warm", "the newsletter has a typo",
    "customer {p} asks for a refund", "translation of page {n} missing",
    "holiday calendar outdated",
    "package for {h} arrived damaged", "screen of kiosk {n} flickers", "forklift battery low",
    "temperature of freezer {n} rising", "elevator {n} out of service",
)  # fmt: skip


def build(folder: Path) -> dict[str, tuple[str, tuple[str, ...]]]:
    made = {}
    for technology in TECHNOLOGIES:
        for topic, phrases in TOPICS.items():
            name = f"{technology}-{topic}"
            place = folder / technology / name
            place.mkdir(parents=True)
            (place / "SKILL.md").write_text(
                f"---\nname: {name}\ndescription: What to do about {phrases[0]} in {technology}.\n"
                "---\n# Do\n\nit\n"
            )
            words = "".join(f"    - {technology} {phrase}\n" for phrase in phrases)
            (place / "playbook.yaml").write_text(
                f"summary: mends {name}\nsignature:\n  words:\n{words}"
                "  probes: [{name: look, command: 'true'}]\n"
                "steps: [{name: act, command: 'true', risk: read}]\n"
                "verify: [{name: check, command: 'true'}]\n"
            )
            made[name] = (technology, phrases)
    return made


def worded(dice: random.Random, technology: str, phrase: str) -> str:
    words = phrase.split()
    if dice.random() < 0.3:
        dice.shuffle(words)
    if dice.random() < 0.4:
        words.insert(dice.randrange(len(words) + 1), dice.choice(("still", "again", "suddenly")))
    if dice.random() < 0.2:
        words = [word.upper() for word in words]
    told = dice.choice(AROUND)
    named = technology.capitalize() if dice.random() < 0.3 else technology
    return told.format(
        t=named, a=" ".join(words), h=f"web-{dice.randint(1, 40)}", p=dice.randint(2000, 9999),
        n=dice.randint(2, 90),
    )  # fmt: skip


def measure(seed: int = 1) -> dict[str, float]:
    dice = random.Random(seed)
    with tempfile.TemporaryDirectory() as name:
        made = build(Path(name))
        matcher = SkillMatcher(SkillLibrary([SkillRoot(Path(name), "user")]).skills)
        right, times, asked = 0, [], 0
        for skill, (technology, phrases) in made.items():
            for phrase in phrases:
                alert = worded(dice, technology, phrase)
                began = time.perf_counter()
                found = matcher.rank(alert, limit=1)
                times.append(time.perf_counter() - began)
                asked += 1
                right += bool(found) and found[0].skill == skill
        none = 0
        for _ in range(400):
            text = dice.choice(FOREIGN).format(
                n=dice.randint(1, 9), p=dice.randint(1000, 9999), h=f"desk-{dice.randint(1, 9)}"
            )
            none += not matcher.rank(text)
    return {
        "skills": len(made),
        "alerts": asked,
        "top1": right / asked,
        "none": none / 400,
        "median_ms": statistics.median(times) * 1000,
        "worst_ms": max(times) * 1000,
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--json", action="store_true")
    figures = measure()
    if parser.parse_args().json:
        print(json.dumps(figures))
    else:
        print(f"top-1 among {figures['skills']:.0f}: {figures['top1']:.1%} of {figures['alerts']}")
        print(f"no skill when none fits: {figures['none']:.1%}")
        print(f"a match takes {figures['median_ms']:.2f} ms, at most {figures['worst_ms']:.2f} ms")
