"""Pins: what a person has seen of an MCP server, in `<home>/mcp/<server>.json`.

A pin says how the server is reached, and holds each tool as it was reviewed, with a digest of its
definition. The tools of the agent are made from pins, without a connection.
"""

import hashlib
import json
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import msgspec

from hermes.core.errors import SettingsError
from hermes.core.foreign_text import clean_text, strip_hidden_characters
from hermes.core.messages import Risk, Value
from hermes.plumbing.files import FileLock, write_atomically

MAX_TOOL_NAME_CHARS = 64
MAX_DESCRIPTION_CHARS = 1024
MAX_SCHEMA_BYTES = 100_000
MAX_SCHEMA_DEPTH = 32
MAX_TOOLS = 1_000
"""Tools of one server; a server with more is refused."""
_SERVER_NAME = re.compile(r"[a-z][a-z0-9-]{0,23}")
_FOREIGN_NAME = re.compile(r"(?!.*\.\.)[A-Za-z0-9_][A-Za-z0-9_./-]{0,199}")
_NAME_DIGEST_CHARS = 8

EnvironmentKind = Literal["local", "sandbox", "docker", "ssh"]


class ServerAddress(Value, kw_only=True, frozen=True):
    """How a server is reached: a command in an environment, or an address."""

    command: tuple[str, ...] = ()
    url: str = ""
    env: tuple[str, ...] = ()
    """Names of variables that the command gets besides PATH, HOME and LANG."""
    headers: dict[str, str] = {}
    """By header, the name of the variable that holds its value."""
    environment: EnvironmentKind = "local"
    idle_s: float = 600.0
    """Seconds without a call after which the server is ended."""
    sampling: bool = False
    """Whether the server may ask the model of this agent."""
    oauth: bool = False
    """Whether `hermes mcp login` gives the credentials."""

    @property
    def describe(self) -> str:
        return self.url or " ".join(self.command)


class ForeignTool(Value, kw_only=True, frozen=True):
    """A tool as a server describes it, unchanged."""

    name: str
    title: str = ""
    description: str = ""
    input_schema: dict[str, Any] = {}
    output_schema: dict[str, Any] | None = None
    annotations: dict[str, Any] = {}

    @property
    def digest(self) -> str:
        text = json.dumps(
            msgspec.to_builtins(self), sort_keys=True, separators=(",", ":"), allow_nan=False
        )
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()

    @property
    def shown_description(self) -> str:
        """Without invisible characters, and not longer than a description needs to be."""
        text = strip_hidden_characters(self.description or self.title)
        return clean_text(text, MAX_DESCRIPTION_CHARS)

    @property
    def says_read_only(self) -> bool:
        return self.annotations.get("readOnlyHint") is True

    @property
    def says_destructive(self) -> bool:
        return self.annotations.get("destructiveHint") is True


RESOURCES_TOOL = ForeignTool(
    name="resources",
    description="Lists the resources of this server (query: words that they contain), or reads "
    "the one with this uri.",
    input_schema={
        "type": "object",
        "properties": {"uri": {"type": "string"}, "query": {"type": "string"}},
    },
    annotations={"readOnlyHint": True},
)
PROMPTS_TOOL = ForeignTool(
    name="prompts",
    description="Lists the prompts of this server, or gets the text of the one with this name. "
    "Only for a person who asked for a prompt of it.",
    input_schema={
        "type": "object",
        "properties": {"name": {"type": "string"}, "arguments": {"type": "object"}},
    },
    annotations={"readOnlyHint": True},
)
"""What servers offer besides tools is used, reviewed and pinned like a tool of theirs."""


class ToolPin(Value, kw_only=True, frozen=True):
    """A tool as it was reviewed."""

    tool: ForeignTool
    digest: str
    risk: Risk = Risk.CHANGE
    """The class that a person chose."""
    by: str = ""
    """Who chose the class; empty when no person did."""
    at: datetime | None = None

    @property
    def effective_risk(self) -> Risk:
        """A hint of the server can only make it stricter."""
        if not self.by:
            return Risk.DESTROY if self.tool.says_destructive else Risk.CHANGE
        if self.tool.says_destructive and self.risk is Risk.READ:
            return Risk.CHANGE
        return self.risk


class ServerPin(Value, kw_only=True, frozen=True):
    """A server as it was reviewed."""

    name: str
    address: ServerAddress
    tools: tuple[ToolPin, ...] = ()
    protocol: str = ""
    """The revision of the protocol that it speaks."""
    recipe: str = ""
    format: int = 1

    @property
    def digest(self) -> str:
        return hashlib.sha256(_encode(self)).hexdigest()

    def find(self, tool: str) -> ToolPin | None:
        return next((each for each in self.tools if each.tool.name == tool), None)


class ToolDifference(Value, frozen=True):
    """How a listed tool differs from its pin."""

    name: str
    change: Literal["new", "changed", "gone"]
    parts: tuple[str, ...] = ()
    """What changed, one line each."""


def check_server_name(name: str) -> str:
    """Raises `SettingsError` for a name that could be taken for another."""
    if _SERVER_NAME.fullmatch(name):
        return name
    raise SettingsError(
        f"{name!r} cannot be the name of a server: it is made of a-z, 0-9 and -, begins with a "
        "letter and has at most 24 characters, like grafana or aws-cloudwatch"
    )


def agent_tool_name(server: str, tool: str) -> str:
    """`mcp_<server>_<tool>`; a name that had to be changed ends in a digest of the original. No
    server has an underscore in its name, so two names are never the same."""
    whole = f"mcp_{server}_{tool}"
    plain = re.sub(r"[^A-Za-z0-9_-]", "_", whole)
    if plain == whole and len(plain) <= MAX_TOOL_NAME_CHARS:
        return plain
    digest = hashlib.sha256(f"{server}/{tool}".encode()).hexdigest()[:_NAME_DIGEST_CHARS]
    return f"{plain[: MAX_TOOL_NAME_CHARS - _NAME_DIGEST_CHARS - 1]}_{digest}"


def policy_tool_name(server: str, tool: str) -> str:
    return f"mcp:{server}/{tool}"


def tool_objection(tool: ForeignTool) -> str:
    """Return why a tool cannot be used at all; empty when it can."""
    if not _FOREIGN_NAME.fullmatch(tool.name):
        return f"{tool.name[:80]!r} is no name of a tool: only A-Z, a-z, 0-9, _ . / and - are"
    parts = [tool.input_schema, tool.output_schema, tool.annotations]
    if _depth(parts, MAX_SCHEMA_DEPTH + 1) - 1 > MAX_SCHEMA_DEPTH:
        return f"the schema of {tool.name} has more than {MAX_SCHEMA_DEPTH} levels"
    try:
        size = len(json.dumps(parts, allow_nan=False))
    except (ValueError, RecursionError) as error:
        return f"the schema of {tool.name} is not JSON: {error}"
    if size > MAX_SCHEMA_BYTES:
        return f"the schema of {tool.name} has {size:,} bytes; {MAX_SCHEMA_BYTES:,} are the limit"
    if tool.input_schema.get("type", "object") != "object":
        return f"the schema of {tool.name} describes no object"
    return ""


def _depth(value: object, most: int) -> int:
    if most < 0 or not isinstance(value, dict | list):
        return 0
    inner = value.values() if isinstance(value, dict) else value
    return 1 + max((_depth(each, most - 1) for each in inner), default=0)


def compare_tools(pin: ServerPin, listed: Iterable[ForeignTool]) -> list[ToolDifference]:
    """Return what changed since the review, in the order of the listing; gone tools come last."""
    differences, seen = list[ToolDifference](), set[str]()
    for tool in listed:
        seen.add(tool.name)
        old = pin.find(tool.name)
        if old is None:
            differences.append(ToolDifference(tool.name, "new"))
        elif old.digest != tool.digest:
            differences.append(
                ToolDifference(tool.name, "changed", tuple(describe_change(old.tool, tool)))
            )
    gone = [each.tool.name for each in pin.tools if each.tool.name not in seen]
    return [*differences, *(ToolDifference(name, "gone") for name in gone)]


def describe_change(old: ForeignTool, new: ForeignTool) -> list[str]:
    """One line for each part that changed, old and new, cleaned for a terminal."""
    before, after = msgspec.to_builtins(old), msgspec.to_builtins(new)
    lines = []
    for key in ("title", "description", "input_schema", "output_schema", "annotations"):
        was, now = before.get(key), after.get(key)
        if was != now:
            lines.append(f"{key}: {_shown(was)} → {_shown(now)}")
    return lines


def _shown(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
    return clean_text(strip_hidden_characters(text or "nothing"), 300).replace("\n", " ")


def make_pin(tool: ForeignTool, risk: Risk | None, by: str) -> ToolPin:
    """Without a class of a person, the hints of the server decide, at least `change`."""
    if risk is None:
        return ToolPin(tool=tool, digest=tool.digest)
    return ToolPin(tool=tool, digest=tool.digest, risk=risk, by=by, at=datetime.now(UTC))


class PinStore:
    """The pins of one home. Raises `SettingsError`."""

    def __init__(self, home: Path) -> None:
        self.folder = home / "mcp"

    def names(self) -> list[str]:
        try:
            return sorted(
                file.stem
                for file in self.folder.glob("*.json")
                if _SERVER_NAME.fullmatch(file.stem)
            )
        except OSError:
            return []

    def load(self, name: str) -> ServerPin:
        path = self._path(name)
        try:
            pin = msgspec.json.decode(path.read_bytes(), type=ServerPin)
        except FileNotFoundError as error:
            known = ", ".join(self.names()) or "none"
            raise SettingsError(
                f"there is no MCP server {name!r}; there are: {known}. `hermes mcp add` adds one"
            ) from error
        except (OSError, msgspec.DecodeError, RecursionError) as error:
            raise SettingsError(
                f"{path} cannot be read: {error}; `hermes mcp remove {name}` removes it"
            ) from error
        if pin.name != name or pin.format != 1:
            raise SettingsError(f"{path} is not the pin of {name}; remove the file")
        return pin

    def load_all(self) -> tuple[list[ServerPin], list[str]]:
        """All pins that can be read, and what is wrong with the others."""
        pins, problems = list[ServerPin](), list[str]()
        for name in self.names():
            try:
                pins.append(self.load(name))
            except SettingsError as error:
                problems.append(str(error))
        return pins, problems

    def save(self, pin: ServerPin, *, replaces: str = "") -> None:
        """`replaces` is the digest of the pin that the person saw; empty for a new server."""
        path = self._path(pin.name)
        try:
            with FileLock(self.folder / ".lock"):
                if self._current_digest(pin.name) != replaces:
                    raise SettingsError(
                        f"another person has just reviewed {pin.name}; look at it again with "
                        f"`hermes mcp review {pin.name}`"
                    )
                write_atomically(path, _encode(pin))
        except OSError as error:
            raise SettingsError(
                f"the pin of {pin.name} was not written, and the old one stays: {error.strerror}"
            ) from error

    def remove(self, name: str) -> ServerPin | None:
        """The pin that was removed; None when it could not be read."""
        pin, path = None, self._path(name)
        try:
            with FileLock(self.folder / ".lock"):
                try:
                    pin = self.load(name)
                except SettingsError:
                    if not path.exists():
                        raise
                path.unlink()
        except OSError as error:
            raise SettingsError(f"{path} was not removed: {error.strerror}") from error
        return pin

    def _current_digest(self, name: str) -> str:
        return self.load(name).digest if self._path(name).exists() else ""

    def _path(self, name: str) -> Path:
        return self.folder / f"{check_server_name(name)}.json"


def _encode(pin: ServerPin) -> bytes:
    return msgspec.json.format(msgspec.json.encode(pin, order="sorted"), indent=1) + b"\n"
