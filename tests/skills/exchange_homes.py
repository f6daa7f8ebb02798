"""Homes that exchange skills, and keys made for a test."""

from pathlib import Path

from hermes.app.exchange import Exchange
from hermes.app.exchange_checks import check_signature, seal_of
from hermes.policy.signatures import KeyPair
from hermes.settings.load import Loaded, load
from hermes.skills.cards import Root
from hermes.skills.exchange.bundle import Goods, make_bundle
from hermes.skills.exchange.importing import Examined
from hermes.skills.exchange.placing import Placed
from hermes.skills.exchange.sealing import Seal
from hermes.skills.format.skill_text import read_skill
from hermes.skills.library import Skill
from hermes.skills.scanner.finding import Entry

BODY = """\
---
name: {name}
description: Free the space that old logs take; use when a disk is nearly full.
---
# Old logs

## When to use

A disk is more than 90 % full and logs are why.

## Checks

```bash
df -h /var/log
```
"""
check = check_signature


def key(number: int = 1) -> Seal:
    return seal_of(KeyPair(bytes([number]) * 32))


def entries(name: str = "old-logs", **files: str) -> tuple[Entry, ...]:
    texts = {"SKILL.md": BODY.format(name=name), **files}
    return tuple(Entry(path=path, data=text.encode()) for path, text in texts.items())


def goods(version: int = 1, publisher: str = "alice", **more: object) -> Goods:
    given = {"name": "old-logs", "skill": entries(), **more}
    return Goods(version=version, publisher=publisher, **given)  # type: ignore[arg-type]


def bundle(version: int = 1, by: Seal | None = None, **more: object) -> bytes:
    return make_bundle(goods(version, **more), by or key())  # type: ignore[arg-type]


def a_home(folder: Path, name: str) -> tuple[Loaded, Exchange]:
    variables = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(folder)}
    loaded = load(home=folder / name, variables=variables)
    return loaded, Exchange(loaded)


def a_skill(home: Path, name: str = "old-logs", text: str = "", **files: str) -> Skill:
    folder = home / "skills" / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "SKILL.md").write_text(text or BODY.format(name=name))
    for path, content in files.items():
        (folder / path).write_text(content)
    told = read_skill((folder / "SKILL.md").read_text(), folder=name)
    return Skill(folder, Root(home / "skills", "user"), told)


async def fetched(home: Exchange, source: str) -> list[bytes]:
    return [data async for data in home.gather(source)]


async def imported(
    home: Exchange, data: bytes, *, sandbox: bool = False
) -> tuple[Examined, Placed]:
    gate = home.gatehouse(lambda _: None, sandbox=sandbox, prove=False)
    folder = home.root / "old-logs"
    existing = folder if folder.is_dir() else None
    examined = await gate.examine(data, existing)
    return examined, gate.admit(examined, existing)
