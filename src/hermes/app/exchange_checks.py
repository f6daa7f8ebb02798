"""What the exchange borrows from other rooms: signatures, the reader of shell, the gym."""

import hashlib
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from hermes.core.errors import HermesError
from hermes.skills.exchange.importing import Proven
from hermes.skills.exchange.sealing import Seal
from hermes.skills.library import Skill
from hermes.skills.scanner.finding import Entry

if TYPE_CHECKING:
    from hermes.policy.audit import Signer
    from hermes.skills.lifecycle.replay import Case

_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
"""A statement carries its own time, where it has one; the signature needs none."""
_MOST_CASES = 3


def shell_effects(text: str) -> frozenset[str]:
    from hermes.policy.commands import analyse

    return frozenset(analyse(text).effects)


def check_signature(key: str, signature: str, message: bytes) -> bool:
    from hermes.core.events.audit import CheckpointSigned
    from hermes.policy.audit import FIRST, RUN, fingerprint_of, verify

    try:
        public = bytes.fromhex(key)
    except ValueError:
        return False
    claim = CheckpointSigned(
        run=RUN,
        seq=0,
        digest=_digest(message),
        at=_EPOCH,
        previous=FIRST,
        key=fingerprint_of(public),
        signature=signature,
    )
    return verify(claim, public)


async def rerun_in_gym(folder: Path, evidence: Sequence[Entry]) -> Proven:
    """Variants that its publisher measured, played here with the skill alone."""
    from hermes.app.proving import baseline, replay_in_gym
    from hermes.skills.cards import Root
    from hermes.skills.format.skill_text import read_skill

    cases = _cases(evidence)
    if not cases:
        return Proven("not-run", "its evidence names no case that could be played")
    text = read_skill((folder / "SKILL.md").read_text(encoding="utf-8"), folder=folder.name)
    skill = Skill(folder, Root(folder.parent, "user"), text, "trusted")
    if skill.playbook is None:
        return Proven("not-run", "it has no playbook that could be played")
    try:
        replay = replay_in_gym(skill, baseline("no-op"))
        solved = [(await replay(case, True)).solved for case in cases]
    except (HermesError, KeyError, OSError) as error:
        return Proven("not-run", f"the gym could not play it: {error}")
    told = f"{sum(solved)} of {len(solved)} variants solved here"
    return Proven("passed" if all(solved) else "failed", told)


def _cases(evidence: Sequence[Entry]) -> list["Case"]:
    from hermes.skills.lifecycle.replay import Case

    found: dict[str, Case] = {}
    for entry in evidence:
        for name, seed in re.findall(r'"variant ([\w-]{1,80}) #(\d{1,9})"', entry.text):
            found[f"{name} {seed}"] = Case(name=name, seed=int(seed))
    return list(found.values())[:_MOST_CASES]


def seal_of(signer: "Signer") -> Seal:
    def sign(message: bytes) -> str:
        return signer.sign(0, _digest(message), at=_EPOCH).signature

    return Seal(key=signer.public.hex(), sign=sign)


def _digest(message: bytes) -> str:
    # The word in front keeps it apart from digests of the journal, which are hexadecimal only.
    return f"exchange {hashlib.sha256(message).hexdigest()}"
