"""Which tools a house has: those of its toolsets, those declared in its home, and `delegate`."""

from collections.abc import Mapping, Sequence

import msgspec

from hermes.agent.settings import AgentSettings
from hermes.core.messages import Value
from hermes.core.plugins import names
from hermes.core.protocols import Tool
from hermes.core.recall import Searches
from hermes.core.remembering import KeepsNotes
from hermes.core.skills import KnowsSkills
from hermes.settings.detect import ON_BOARD
from hermes.settings.load import Loaded
from hermes.tools.catalogue import Catalogue, build
from hermes.tools.memory import make_memory
from hermes.tools.session_search import make_session_search
from hermes.tools.skills import make_skills
from hermes.tools.terminal import make_terminal

DELEGATE = "delegate"


class Equipment(Value, frozen=True):
    catalogue: Catalogue
    agent: AgentSettings
    detected: str = ""
    """Who answers and why, when nobody chose a model."""
    mistakes: tuple[str, ...] = ()
    """Tools of the home that could not be read, with file and line."""


def own_tools(
    loaded: Loaded, notes: KeepsNotes, past: Searches, skills: KnowsSkills
) -> dict[str, Tool]:
    """Tools that reach into this house, and not only into the place where it works."""
    own: dict[str, Tool] = {"session_search": make_session_search(past), **make_skills(skills)}
    return {**own, "memory": make_memory(notes)} if loaded.settings.memory.notes else own


def equip(
    loaded: Loaded,
    *,
    model: str = "",
    toolsets: Sequence[str] = (),
    own: Mapping[str, Tool] | None = None,
) -> Equipment:
    """What is not said here is as the settings say."""
    settings, detected = loaded.settings.tools, ""
    mistakes: tuple[str, ...] = ()
    why = loaded.origin("model.default")
    if toolsets:
        settings = msgspec.structs.replace(settings, toolsets=tuple(toolsets))
    if not model and why.source == "detected":
        detected = _detected(loaded.settings.model.default, why.where)
        if loaded.settings.model.default == ON_BOARD and not toolsets:
            # So small a model calls tools for the sake of calling them; it may only talk.
            settings = msgspec.structs.replace(settings, toolsets=())
    terminal = loaded.settings.terminal
    extra: dict[str, Tool] = {
        "terminal": make_terminal(timeout=terminal.timeout, max_timeout=terminal.max_timeout),
        **(own or {}),
    }
    folder = loaded.home / "tools"
    if folder.is_dir():
        from hermes.tools.declared import load_folder

        declared = load_folder(folder, taken=names("tools"))
        extra |= declared.tools
        mistakes = declared.mistakes
    catalogue = build(settings, extra=extra, elsewhere=[DELEGATE])
    return Equipment(catalogue, _agent(loaded.settings.agent, catalogue), detected, mistakes)


def _agent(settings: AgentSettings, catalogue: Catalogue) -> AgentSettings:
    """The agent brings `delegate` along by itself, unless the chosen toolsets leave it out."""
    if DELEGATE in catalogue.elsewhere:
        return settings
    return msgspec.structs.replace(settings, max_depth=0)


def _detected(model: str, why: str) -> str:
    if model != ON_BOARD:
        return f"{model} answers, because {why}"
    return (
        f"{why}: answers come from checks and the journal only; `hermes setup` adds a model that "
        "can investigate"
    )
