"""Adds, reviews, tests and removes MCP servers for a person at a terminal."""

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace

from hermes.app.mcp.servers import open_servers
from hermes.app.people import require_person
from hermes.core.errors import SettingsError
from hermes.core.events.mcp import MCP_RUN, McpServerRemoved, McpServerReviewed, ReviewedTool
from hermes.core.messages import Risk, Value
from hermes.integrations.mcp import pins
from hermes.integrations.mcp.logins import LoginStore
from hermes.integrations.mcp.pins import (
    EnvironmentKind,
    PinStore,
    ServerAddress,
    ServerPin,
    ToolPin,
)
from hermes.integrations.mcp.review import ToolProposal, propose_classes
from hermes.integrations.mcp.servers import ServerLimits
from hermes.memory.store import open_journal
from hermes.settings.load import LoadedSettings

RECIPES_FILE = Path(pins.__file__).with_name("recipes.toml")


class ServerRecipe(Value, kw_only=True, frozen=True):
    """How a well-known server is reached, and which of its tools need a stricter class."""

    name: str
    about: str
    install: str
    address: ServerAddress
    classes: dict[str, Risk] = {}


class ServerReview(Value, kw_only=True, frozen=True):
    """The current offer of a server, with the class that each tool would get."""

    pin: ServerPin
    """As it was reviewed last; without tools for a new server."""
    protocol: str
    proposals: tuple[ToolProposal, ...]
    gone: tuple[str, ...] = ()

    @property
    def usable(self) -> tuple[ToolProposal, ...]:
        return tuple(each for each in self.proposals if not each.objection)

    @property
    def changed(self) -> bool:
        return bool(self.gone) or any(each.change for each in self.proposals)


def load_recipes() -> dict[str, ServerRecipe]:
    return {
        name: ServerRecipe(
            name=name,
            about=data["about"],
            install=data["install"],
            address=ServerAddress(
                command=tuple(data.get("command", ())),
                url=data.get("url", ""),
                env=tuple(data.get("env", ())),
                headers=data.get("headers", {}),
            ),
            classes={tool: Risk(word) for tool, word in data.get("classes", {}).items()},
        )
        for name, data in tomllib.loads(RECIPES_FILE.read_text("utf-8")).items()
    }


async def look_at_server(
    loaded: LoadedSettings, folder: Path, pin: ServerPin, *, recipe: str = ""
) -> ServerReview:
    """Connects once and lists the tools. Raises `ToolError` when the server does not answer."""
    known = load_recipes().get(recipe or pin.recipe)
    async with open_servers(loaded, folder, None, ServerLimits(restart_delays_s=())) as servers:
        protocol, listed = await servers.server(pin).listing()
    proposals = propose_classes(
        listed,
        pin=pin if pin.tools else None,
        recipe=known.classes if known else None,
        find_suspicious=find_suspicious_text,
    )
    offered = {tool.name for tool in listed}
    gone = tuple(each.tool.name for each in pin.tools if each.tool.name not in offered)
    return ServerReview(pin=pin, protocol=protocol, proposals=tuple(proposals), gone=gone)


async def save_review(
    loaded: LoadedSettings, review: ServerReview, classes: Mapping[str, Risk], *, new: bool
) -> ServerPin:
    """Writes the pin and records who reviewed it. A tool without a class keeps its earlier one, if
    its definition is the same; else nobody has classed it, and it asks each time."""
    store = PinStore(loaded.home)
    names = {each.tool.name for each in review.usable}
    if unknown := sorted(set(classes) - names):
        offered = ", ".join(sorted(names)[:10]) or "none"
        raise SettingsError(f"{review.pin.name} has no tool {unknown[0]!r}; it has: {offered}")
    async with open_journal(loaded.store) as journal:
        by = await require_person(loaded, journal)
        pin = replace(
            review.pin,
            protocol=review.protocol,
            tools=tuple(_pin_tool(review.pin, each, classes, by) for each in review.usable),
        )
        store.save(pin, replaces="" if new else review.pin.digest)
        await journal.append(_reviewed_event(pin, by))
    return pin


def _pin_tool(
    old: ServerPin, proposal: ToolProposal, classes: Mapping[str, Risk], by: str
) -> ToolPin:
    tool = proposal.tool
    before = old.find(tool.name)
    if tool.name not in classes and before is not None and before.digest == tool.digest:
        return before
    return pins.make_pin(tool, classes.get(tool.name), by)


def _reviewed_event(pin: ServerPin, by: str) -> McpServerReviewed:
    return McpServerReviewed(
        run=MCP_RUN,
        server=pin.name,
        digest=pin.digest,
        address=pin.address.describe,
        by=by,
        tools=tuple(
            ReviewedTool(each.tool.name, each.digest, each.effective_risk, bool(each.by))
            for each in pin.tools
        ),
    )


async def remove_server(loaded: LoadedSettings, name: str) -> None:
    async with open_journal(loaded.store) as journal:
        by = await require_person(loaded, journal)
        PinStore(loaded.home).remove(name)
        LoginStore(loaded.home).remove(name)
        await journal.append(McpServerRemoved(run=MCP_RUN, server=name, by=by))


def find_suspicious_text(text: str) -> list[str]:
    """Return what the scanner for foreign skills finds in a description: hidden text, orders."""
    from hermes.skills.scanner.deobfuscation import (
        check_hidden_text,
        decode_hidden_texts,
        normalize_text,
    )
    from hermes.skills.scanner.purpose import DeclaredPurpose
    from hermes.skills.scanner.rules.prose import check_prose, check_sentences

    plain, purpose = normalize_text(text), DeclaredPurpose()
    found = [*check_hidden_text("", text), *check_prose("", plain, purpose)]
    found += check_sentences("", plain.casefold(), purpose)
    for _, inside in decode_hidden_texts(plain):
        found += check_prose("", normalize_text(inside), purpose)
        found += check_sentences("", inside.casefold(), purpose)
    return list(dict.fromkeys(each.cause for each in found))


def address_from(
    command: Sequence[str],
    url: str,
    env: Sequence[str] = (),
    headers: Mapping[str, str] | None = None,
    *,
    login: bool = False,
    environment: EnvironmentKind = "local",
) -> ServerAddress:
    """Raises `SettingsError` when neither a command nor an address, or both, were given."""
    if bool(command) == bool(url):
        raise SettingsError("give either --url ADDRESS, or the command after --")
    if url and not url.startswith(("https://", "http://")):
        raise SettingsError(f"{url!r} is no address: it begins with https:// or http://")
    if login and not url:
        raise SettingsError("--login is for a server over HTTP: give its --url")
    return ServerAddress(
        command=tuple(command),
        url=url,
        env=tuple(env),
        headers=dict(headers or {}),
        oauth=login,
        environment=environment,
    )
