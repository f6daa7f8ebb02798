"""The configured systems around the host, and the tools that are declared for them in YAML."""

import base64
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from shlex import quote
from urllib.parse import urlsplit

import msgspec

import hermes.tools
from hermes.core.actions import READ_ONLY_EFFECTS
from hermes.core.errors import SettingsError
from hermes.core.messages import Risk, Value
from hermes.core.plugins import plugin_names
from hermes.plumbing.addresses import guard_for
from hermes.plumbing.files import write_atomically
from hermes.plumbing.yaml_document import YamlFileError
from hermes.settings.load import LoadedSettings
from hermes.tools.connected_command import CommandConnection, Connections
from hermes.tools.request_tool import SystemEndpoint
from hermes.tools.settings import DatabaseSettings, SystemSettings
from hermes.tools.yaml_tools import DeclaredTool, load_tool_folder

BUNDLED_TOOLS_FOLDER = Path(hermes.tools.__file__).parent / "bundled"
PROMETHEUS_SYSTEM = "prometheus"


class DeclaredTools(Value, frozen=True):
    tools: dict[str, DeclaredTool]
    members: dict[str, tuple[str, ...]]
    """By toolset, the tools of its file."""
    problems: tuple[str, ...] = ()


def load_declared_tools(
    loaded: LoadedSettings, taken: Collection[str], *, all_systems: bool = False
) -> DeclaredTools:
    """Tools of the home and of the bundled toolsets. Those of a toolset without a configured system
    are left out, unless `all_systems`: to list them with what is missing."""
    endpoints, connections = system_endpoints(loaded), command_connections(loaded)
    wanted = None if all_systems else _files_for(endpoints, connections)
    own = load_tool_folder(
        loaded.home / "tools", taken=taken, systems=endpoints, connections=connections
    )
    tools, problems = dict(own.tools), list(own.problems)
    members: dict[str, tuple[str, ...]] = {}
    for path in sorted(BUNDLED_TOOLS_FOLDER.glob("*.yaml")):
        if wanted is not None and path.stem not in wanted:
            continue
        bundled = load_tool_folder(
            BUNDLED_TOOLS_FOLDER,
            taken=taken,
            systems=endpoints,
            connections=connections,
            only=(path.stem,),
        )
        members[path.stem] = tuple(bundled.tools)
        tools = {**bundled.tools, **tools}  # those of the home replace ours
        problems += bundled.problems
    return DeclaredTools(tools, members, tuple(problems))


def list_declared_tools(loaded: LoadedSettings) -> DeclaredTools:
    """All of them, also those whose system is not configured."""
    return load_declared_tools(loaded, plugin_names("tools", loaded.home), all_systems=True)


class ImportedTools(Value, kw_only=True, frozen=True, omit_defaults=False):
    path: str
    tools: tuple[str, ...]
    refused: tuple[tuple[str, str], ...] = ()
    changing: tuple[str, ...] = ()
    """Tools whose command changes something, as the policy reads it."""
    replaced: tuple[str, ...] = ()
    """Bundled tools that these take the place of."""


def import_toolsets(
    loaded: LoadedSettings, file: Path, *, dry_run: bool = False, replace: bool = False
) -> ImportedTools:
    """Translates a file of HolmesGPT into tools of the home. Raises `SettingsError`."""
    from hermes.tools.holmes_import import TranslationError, render_tools, translate_toolsets

    try:
        found = translate_toolsets(file.read_text("utf-8"), str(file))
    except (OSError, UnicodeDecodeError, TranslationError, YamlFileError) as error:
        raise SettingsError(str(error)) from error
    rated = [
        msgspec.structs.replace(each, risk=_command_risk(each.command)) for each in found.tools
    ]
    found = msgspec.structs.replace(found, tools=tuple(rated))
    target = loaded.home / "tools" / f"{file.stem}.yaml"
    if found.tools and not dry_run:
        if target.exists() and not replace:
            raise SettingsError(f"{target} exists already; add --replace to replace it")
        target.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(target, render_tools(found, file.name).encode())
    names = tuple(each.name for each in found.tools)
    bundled = [name for tools in list_declared_tools(loaded).members.values() for name in tools]
    return ImportedTools(
        path=str(target),
        tools=names,
        refused=found.refused,
        changing=tuple(each.name for each in rated if each.risk != Risk.READ),
        replaced=tuple(name for name in names if name in bundled),
    )


def _command_risk(template: str) -> Risk:
    """Return the risk that the policy reads in the command, with example values."""
    from hermes.policy.command_analysis import analyse_command

    command = re.sub(r"\{\{\s*\w+\s*\}\}", "example", template)
    effects = analyse_command(command).effects - READ_ONLY_EFFECTS - {"network-read"}
    return Risk.CHANGE if effects else Risk.READ


def _files_for(endpoints: Mapping[str, SystemEndpoint], connections: Connections) -> set[str]:
    extra = {PROMETHEUS_SYSTEM} if "alertmanager" in endpoints else set()
    if not connections.keys().isdisjoint(DATABASE_KINDS):
        extra.add(DATABASES_FILE)
    return {*endpoints, *connections, *extra}


DATABASE_KINDS = ("postgres", "mysql", "redis")
DATABASES_FILE = "databases"


def command_connections(loaded: LoadedSettings) -> Connections:
    """The options of kubectl, helm, docker and database clients, as far as they are configured."""
    found: dict[str, dict[str, CommandConnection]] = {}
    cluster, tools = loaded.settings.sre.kubernetes, loaded.settings.tools
    if cluster.configured:
        from hermes.sre.cluster.queries import helm_options, kubectl_options

        host = cluster.context or cluster.kubeconfig
        found["kubernetes"] = {"": CommandConnection(options=kubectl_options(cluster), host=host)}
        found["helm"] = {"": CommandConnection(options=helm_options(cluster), host=host)}
    if tools.docker:
        options = f"-H {quote(tools.docker)}"
        found["docker"] = {"": CommandConnection(options=options, host=tools.docker)}
    for name, each in tools.databases.items():
        connection = CommandConnection(options=_client_options(each), host=each.host)
        found.setdefault(each.kind, {})[name] = connection
    return found


SOCKET_FLAGS = {"mysql": "-S", "redis": "-s"}
"""For a host that is a path: psql takes it with -h, as the folder of the socket."""


TLS_FLAGS = {"mysql": "--ssl", "redis": "--tls"}
"""psql is told by the name of the database."""


def _client_options(settings: DatabaseSettings) -> str:
    flags = {
        "postgres": ("-h", "-p", "-U", "-d"),
        "mysql": ("-h", "-P", "-u", "-D"),
        "redis": ("-h", "-p", "--user", "-n"),
    }[settings.kind]
    port: int | str = settings.port or ""
    if settings.host.startswith("/") and settings.kind in SOCKET_FLAGS:
        flags, port = (SOCKET_FLAGS[settings.kind], *flags[1:]), ""
    database, last = settings.database, TLS_FLAGS.get(settings.kind, "") if settings.tls else ""
    if settings.tls and settings.kind == "postgres":
        named = database.replace("\\", "\\\\").replace("'", "\\'")
        database = f"dbname='{named}' sslmode=require" if database else "sslmode=require"
    values = (settings.host, port, settings.user, database)
    given = zip(flags, values, strict=True)
    words = [f"{flag} {quote(str(value))}" for flag, value in given if value]
    return " ".join([*words, last] if last else words)


def system_endpoints(loaded: LoadedSettings) -> dict[str, SystemEndpoint]:
    """The systems that have an address. Raises `SettingsError` for an invalid address."""
    systems = {name: each for name, each in loaded.settings.systems.items() if each.url}
    watched = loaded.settings.sre.prometheus
    if PROMETHEUS_SYSTEM not in systems and watched.url:
        systems[PROMETHEUS_SYSTEM] = SystemSettings(
            url=watched.url, token_variable=watched.token_variable, user=watched.user
        )
    for name, each in systems.items():
        check_system_url(name, each.url)
    guard = guard_for(each.url for each in systems.values())
    return {
        name: SystemEndpoint(
            name=name,
            url=each.url,
            headers={**each.headers, **_authorization(loaded, name, each)},
            key=token_variable(name, each),
            guard=guard,
        )
        for name, each in systems.items()
    }


def token_variable(name: str, settings: SystemSettings) -> str:
    return settings.token_variable or f"{name.upper().replace('-', '_')}_TOKEN"


def secret_origins(loaded: LoadedSettings) -> dict[str, str]:
    """The addresses that secrets are for, by the name of their variable."""
    return {each.key: each.url for each in system_endpoints(loaded).values()}


def _authorization(loaded: LoadedSettings, name: str, settings: SystemSettings) -> dict[str, str]:
    secret = loaded.secrets.get(token_variable(name, settings), "")
    if settings.user:
        pair = base64.b64encode(f"{settings.user}:{secret}".encode()).decode()
        return {"Authorization": f"Basic {pair}"}
    return {"Authorization": f"Bearer {secret}"} if secret else {}


def check_system_url(name: str, url: str) -> None:
    """Raises `SettingsError`, without a password that the address has."""
    shown = re.sub(r"//[^/@]*@", "//…@", url)
    try:
        parts = urlsplit(url)
        plain = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
        plain = plain and not (parts.query or parts.fragment or parts.username)
    except ValueError:
        plain = False
    if not plain:
        raise SettingsError(
            f"systems.{name}.url: {shown!r} is no plain address; write http://host:port, and the "
            f"key into .env: hermes config set {name.upper()}_TOKEN <value>"
        )
