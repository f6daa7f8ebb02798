"""Homes that exchange skills, and keys made for a test."""

from pathlib import Path

from hermes.app.skills.exchange import SkillExchange
from hermes.learning.exchange_publisher import check_signature, signer_for
from hermes.policy.signing import SigningKeyPair
from hermes.settings.load import LoadedSettings, load
from hermes.skills.discovery import SkillRoot
from hermes.skills.exchange.bundle import BundleContents, build_bundle
from hermes.skills.exchange.importer import ImportExamination
from hermes.skills.exchange.placement import SkillPlacement
from hermes.skills.exchange.signed_statements import StatementSigner
from hermes.skills.format import parse_skill_text
from hermes.skills.library import Skill
from hermes.skills.scanner.finding import SkillFile

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


def key(number: int = 1) -> StatementSigner:
    return signer_for(SigningKeyPair(bytes([number]) * 32))


def entries(name: str = "old-logs", **files: str) -> tuple[SkillFile, ...]:
    texts = {"SKILL.md": BODY.format(name=name), **files}
    return tuple(SkillFile(path=path, data=text.encode()) for path, text in texts.items())


def goods(version: int = 1, publisher: str = "alice", **more: object) -> BundleContents:
    given = {"name": "old-logs", "skill": entries(), **more}
    return BundleContents(version=version, publisher=publisher, **given)  # type: ignore[arg-type]


def bundle(version: int = 1, by: StatementSigner | None = None, **more: object) -> bytes:
    return build_bundle(goods(version, **more), by or key())  # type: ignore[arg-type]


def a_home(folder: Path, name: str) -> tuple[LoadedSettings, SkillExchange]:
    variables = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(folder)}
    loaded = load(home=folder / name, variables=variables)
    return loaded, SkillExchange(loaded)


def a_skill(home: Path, name: str = "old-logs", text: str = "", **files: str) -> Skill:
    folder = home / "skills" / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "SKILL.md").write_text(text or BODY.format(name=name))
    for path, content in files.items():
        (folder / path).write_text(content)
    told = parse_skill_text((folder / "SKILL.md").read_text(), folder=name)
    return Skill(folder, SkillRoot(home / "skills", "user"), told)


async def fetched(home: SkillExchange, source: str) -> list[bytes]:
    return [data async for data in home.fetch_bundles(source)]


async def imported(
    home: SkillExchange, data: bytes, *, sandbox: bool = False
) -> tuple[ImportExamination, SkillPlacement]:
    gate = home.open_importer(lambda _: None, sandbox=sandbox, prove=False)
    folder = home.root / "old-logs"
    existing = folder if folder.is_dir() else None
    examined = await gate.examine(data, existing)
    return examined, gate.admit(examined, existing)
