"""Settings of tools."""

from typing import Literal

import msgspec


class OwnToolset(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """A toolset of the operator's own."""

    tools: tuple[str, ...] = ()
    """Tools by name."""
    includes: tuple[str, ...] = ()
    """Other toolsets that belong to it."""
    about: str = ""
    """One line for `hermes tools`."""


class SystemSettings(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """A system around the host that tools ask, such as Prometheus or GitHub."""

    url: str = ""
    """Its address, such as http://127.0.0.1:9090; empty: it is not asked."""
    token_variable: str = ""
    """Name of the secret that is sent as bearer token, or as password where a user is named; empty:
    the name of the system with `_TOKEN`, such as GITHUB_TOKEN."""
    user: str = ""
    """The user for basic authentication; empty: none."""
    headers: dict[str, str] = {}
    """Headers that are sent with each request, such as X-Scope-OrgID."""


class OtlpSettings(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """The section `otlp`: a collector of OpenTelemetry that gets traces of runs and incidents."""

    url: str = ""
    """Its address for OTLP over HTTP, such as http://127.0.0.1:4318; empty: nothing is sent."""
    token_variable: str = ""
    """Name of the secret that is sent as bearer token; empty: none."""
    headers: dict[str, str] = {}
    """Headers that are sent with each request, such as X-Scope-OrgID."""
    service: str = "hermes"
    """The name of this service in the traces."""
    every: float = 5.0
    """Seconds for which spans are collected into one request."""


class DatabaseSettings(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """A database that tools ask. Passwords are in ~/.pgpass, ~/.my.cnf or REDISCLI_AUTH."""

    kind: Literal["postgres", "mysql", "redis"]
    """Which client is used: psql, mariadb or redis-cli."""
    host: str = "127.0.0.1"
    """The name or address of its host, or a path: of PostgreSQL the folder of its socket, of the
    others the socket."""
    port: int = 0
    """Its port; 0: the usual one."""
    user: str = ""
    """An account that should only be able to read."""
    database: str = ""
    """The database on the server."""
    tls: bool = False
    """Refuse a connection that is not encrypted. Without it, psql and mariadb encrypt where the
    server offers it, redis-cli does not."""


IMAGE_KEY_VARIABLE = "FAL_KEY"


class ImageToolSettings(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """The tool `image_generate`."""

    provider: Literal["", "openai", "fal", "gemini"] = ""
    """Who draws: openai (and servers that speak like it), fal, gemini; empty: fal, where FAL_KEY is
    set."""
    model: str = ""
    """Its model; empty: gpt-image-1, fal-ai/flux/dev or gemini-2.5-flash-image."""
    url: str = ""
    """Where its API begins; empty: the address of the provider."""
    key_variable: str = ""
    """Name of the secret with its key; empty: OPENAI_API_KEY, FAL_KEY or GEMINI_API_KEY; `none`
    when it wants none."""
    price_usd: float | None = None
    """US dollars for one picture, held against agent.limits; None: as known."""


class WebToolSettings(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """The tools `web_search` and `web_extract`."""

    search: tuple[str, ...] = ()
    """Search providers in the order in which they are asked; empty: those with a key or an address,
    in the order searxng, brave, tavily, exa, firecrawl. duckduckgo is only asked when named here.
    """
    extract: bool = False
    """Whether pages may be read without a search provider, too."""


class SpeechSettings(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """The section `speech`: how recordings become text, and text becomes speech."""

    provider: str = ""
    """What turns speech into text: command, openai, pocketsphinx or an installed plug-in; empty:
    the command if there is one, else the API if its key is there, else the grammar."""
    command: str = ""
    """A program of this host with its arguments, run without a shell: `{audio}` is the recording as
    WAV, `{language}` the language; the text is what it prints, or the file `{text}`."""
    grammar: str = ""
    """A file with the sentences that pocketsphinx recognizes, in JSGF form."""
    url: str = ""
    """Where an API in the dialect of OpenAI begins; empty: that of OpenAI."""
    key_variable: str = "OPENAI_API_KEY"
    """Name of the secret that holds its key."""
    model: str = ""
    """The model that turns speech into text there; empty: whisper-1."""
    language: str = ""
    """The language that is spoken, such as `de`; empty: recognized by the engine."""
    speaker: str = ""
    """What reads text aloud: openai, flite, espeak-ng or an installed plug-in; empty: the first
    that is there."""
    speech_model: str = ""
    """The model that reads aloud; empty: gpt-4o-mini-tts."""
    voice: str = ""
    """The voice that reads aloud; empty: the engine's own."""
    max_seconds: float = 600.0
    """The longest recording that is turned into text."""
    timeout: float = 120.0
    """Seconds that an engine may take."""


class ToolSettings(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    toolsets: tuple[str, ...] = ("default",)
    """Which toolsets the agent gets; `hermes tools` lists them."""
    disabled: tuple[str, ...] = ()
    """Tools, or whole toolsets, that are left out again."""
    sets: dict[str, OwnToolset] = {}
    """Toolsets of your own by name; they may include the built-in ones."""
    distributions: dict[str, dict[str, float]] = {}
    """For batch runs: by name, how probable each toolset is (0 to 1)."""
    docker: str = ""
    """The address of a container daemon that tools ask, such as unix:///var/run/docker.sock."""
    databases: dict[str, DatabaseSettings] = {}
    """Databases that tools ask, by a name of your own."""
    images: ImageToolSettings = ImageToolSettings()
    """Drawing pictures."""
    web: WebToolSettings = WebToolSettings()
    """Searching the web and reading its pages."""
    private_addresses: tuple[str, ...] = ()
    """Addresses that are not public and that web pages may be read from all the same, such as
    wiki.internal:8443 or 127.0.0.1:8080; without a port, 80 and 443 are meant."""
    remote_browser: str = ""
    """The address of a browser elsewhere (ws://host:port/…, wss://…), or browserbase; empty: the
    Chromium of this host."""
    shown_tokens: int = 4_000
    """Tokens that the list of MCP tools may take; beyond, they are found by `tool_search`."""
    code_timeout: float = 300.0
    """Seconds that one `execute_code` may take, with all the calls it makes."""
    code_calls: int = 50
    """Tool calls that one `execute_code` may make."""
    code_output: int = 60_000
    """Characters of output kept of one `execute_code`: half its head, half its tail."""
