"""Skills here that came from what was revoked: they lose their state, and a person is told."""

from hermes.app.exchange import Exchange
from hermes.app.lifecycle import Lives, Publish
from hermes.app.skills import open_library, states_in
from hermes.core.events.skills import SkillState
from hermes.core.messages import Value
from hermes.core.protocols import Journal
from hermes.settings.load import Loaded
from hermes.skills.compiler.registered import strike
from hermes.skills.lifecycle.life import step

KEPT: tuple[SkillState, ...] = ("draft", "retired")
"""No reflex uses these, so there is nothing to take away."""


class Fallen(Value, kw_only=True, frozen=True):
    skill: str
    why: str
    before: SkillState


async def fall_back(
    exchange: Exchange, loaded: Loaded, journal: Journal, publish: Publish, *, run: str, by: str
) -> list[Fallen]:
    """To drafts, which no reflex plays and no agent calls; each once, also after a crash."""
    affected = exchange.keyring.known.affected()
    if not affected:
        return []
    library = open_library(loaded, None, await states_in(journal))
    lives = Lives(loaded, journal, publish, lambda: library)
    fallen: list[Fallen] = []
    for skill, why in affected.items():
        life = await lives.life(skill)
        if life.state not in KEPT:
            await publish(step(life, "draft", run=run, by=by, reason=why))
        strike(exchange.root, skill)
        exchange.keyring.fell(skill, why)
        fallen.append(Fallen(skill=skill, why=why, before=life.state))
    return fallen
