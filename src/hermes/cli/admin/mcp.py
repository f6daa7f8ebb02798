"""`hermes mcp`: servers of the Model Context Protocol, and what was reviewed of them."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import click

from hermes.cli.context import load_settings
from hermes.cli.lazy import cli_command
from hermes.cli.output import confirm, echo, note, print_json, print_table
from hermes.cli.render.terminal_text import clean, clip
from hermes.core.errors import HermesError, SettingsError
from hermes.core.messages import Risk
from hermes.settings.load import LoadedSettings

if TYPE_CHECKING:
    from hermes.app.mcp.review import ServerRecipe, ServerReview
    from hermes.integrations.mcp.logins import StoredLogin
    from hermes.integrations.mcp.pins import ServerPin

RISKS = [risk.value for risk in Risk]


def _parse_classes(
    ctx: click.Context, parameter: click.Parameter, given: tuple[str, ...]
) -> dict[str, Risk]:
    classes = {}
    for each in given:
        tool, _, word = each.rpartition("=")
        if not tool or word not in RISKS:
            raise click.BadParameter(f"{each!r} is not like get_pods=read; use {', '.join(RISKS)}")
        classes[tool] = Risk(word)
    return classes


def _parse_headers(
    ctx: click.Context, parameter: click.Parameter, given: tuple[str, ...]
) -> dict[str, str]:
    pairs = [each.partition("=") for each in given]
    if wrong := next((each for each in pairs if not each[0] or not each[2]), None):
        raise click.BadParameter(f"{wrong[0]!r} is not like Authorization=GRAFANA_TOKEN")
    return {name: variable for name, _, variable in pairs}


class_option = click.option(
    "--class",
    "classes",
    multiple=True,
    callback=_parse_classes,
    metavar="TOOL=CLASS",
    help="Class of a tool: read, change or destroy; may be repeated.",
)
accept_option = click.option(
    "--accept-proposals", is_flag=True, help="Class all other tools as proposed."
)
yes_option = click.option("--yes", is_flag=True, help="Do not ask; leave the others unclassed.")


@cli_command("""
hermes mcp add time -- mcp-server-time
hermes mcp add grafana --recipe grafana
hermes mcp add shop --url https://mcp.example.org/mcp --header Authorization=SHOP_TOKEN
hermes mcp add sentry --url https://mcp.sentry.dev/mcp --login
hermes mcp add git --environment sandbox -- mcp-server-git
""")
@click.argument("name")
@click.argument("command", nargs=-1)
@click.option("--recipe", default="", metavar="NAME", help="A shipped recipe: hermes mcp recipes.")
@click.option("--url", default="", metavar="ADDRESS", help="A server over HTTP.")
@click.option(
    "--env", multiple=True, metavar="NAME", help="A variable that it gets; may be repeated."
)
@click.option(
    "--header",
    "headers",
    multiple=True,
    callback=_parse_headers,
    metavar="HEADER=VARIABLE",
    help="A header, and the variable that holds its value.",
)
@click.option("--login", "wants_login", is_flag=True, help="Log in with a browser (OAuth) first.")
@click.option("--paste", is_flag=True, help="With --login: the browser runs on another machine.")
@click.option(
    "--environment",
    type=click.Choice(["local", "sandbox", "docker", "ssh"]),
    default="local",
    show_default=True,
    help="Where the command runs; see the settings `terminal`.",
)
@class_option
@accept_option
@yes_option
def add(
    ctx: click.Context, name: str, command: tuple[str, ...], as_json: bool, **given: Any
) -> None:
    """Add the server NAME: start it once, show what it offers, and ask."""
    from hermes.app.mcp.review import address_from, load_recipes
    from hermes.integrations.mcp.pins import PinStore, ServerPin, check_server_name

    loaded, known = load_settings(ctx), load_recipes()
    url = given["url"]
    recipe = given["recipe"] or (name if not (command or url) and name in known else "")
    if recipe and recipe not in known:
        raise SettingsError(f"there is no recipe {recipe!r}; there are: {', '.join(known)}")
    if check_server_name(name) in PinStore(loaded.home).names():
        raise SettingsError(f"there is a server {name} already; see `hermes mcp review {name}`")
    if recipe and not (command or url):
        address = known[recipe].address
        _note_needs(known[recipe])
    else:
        address = address_from(
            command,
            url,
            given["env"],
            given["headers"],
            login=given["wants_login"],
            environment=given["environment"],
        )
    pin = ServerPin(name=name, address=address, recipe=recipe)
    if given["wants_login"]:
        _log_in(loaded, pin, paste=given["paste"])
    answers = given["classes"], given["accept_proposals"], given["yes"]
    _review(loaded, pin, *answers, as_json, new=True)


def _note_needs(recipe: "ServerRecipe") -> None:
    """What a person must have, before anything is started."""
    address = recipe.address
    variables = ", ".join((*address.env, *address.headers.values()))
    program = address.command[0] if address.command else address.url
    note(f"{recipe.name} needs {program}; to install or prepare it: {recipe.install}")
    if variables:
        note(f"{recipe.name} needs the variables {variables}: hermes config set NAME VALUE")


@cli_command("""
hermes mcp review grafana
hermes mcp review grafana --class grafana_api_request=destroy --yes
hermes mcp review grafana --json
""")
@click.argument("name")
@class_option
@accept_option
@yes_option
def review(
    ctx: click.Context,
    name: str,
    as_json: bool,
    classes: dict[str, Risk] | None = None,
    accept_proposals: bool = False,
    yes: bool = False,
) -> None:
    """Look at what NAME offers now and what changed, and class its tools.

    With --json and without a class nothing is changed.
    """
    from hermes.integrations.mcp.pins import PinStore

    loaded = load_settings(ctx)
    pin = PinStore(loaded.home).load(name)
    _review(loaded, pin, classes or {}, accept_proposals, yes, as_json, new=False)


def _review(
    loaded: LoadedSettings,
    pin: "ServerPin",
    classes: dict[str, Risk],
    accept: bool,
    yes: bool,
    as_json: bool,
    *,
    new: bool,
) -> None:
    from hermes.app.mcp.review import look_at_server, save_review

    found = anyio.run(look_at_server, loaded, Path.cwd(), pin)
    if as_json and not (new or classes or accept or yes):
        print_json(_review_data(found))
        return
    if not as_json:
        _print_review(found)
    if accept:
        classes = {each.tool.name: each.risk for each in found.usable} | classes
    if not (accept or yes or classes):
        question = f"Class the {len(found.usable)} tools of {pin.name} as proposed?"
        if not confirm(question, option="--accept-proposals"):
            raise HermesError("nothing was changed; class single tools with --class TOOL=CLASS")
        classes = {each.tool.name: each.risk for each in found.usable}

    async def save() -> "ServerPin":
        return await save_review(loaded, found, classes, new=new)

    saved = anyio.run(save)
    if as_json:
        print_json(_pin_data(saved, loaded))
        return
    unclassed = sum(not each.by for each in saved.tools)
    asks = f", {unclassed} of them unclassed: they ask each time" if unclassed else ""
    echo(f"{pin.name}: {len(saved.tools)} tools{asks}")


def _print_review(found: "ServerReview") -> None:
    print_table(
        ("tool", "proposed", "now", "why", "change"),
        [
            (
                clip(clean(each.tool.name), 50),
                each.risk.value if not each.objection else "refused",
                each.current.value if each.current else "",
                each.objection or each.why,
                each.change,
            )
            for each in found.proposals
        ],
        empty=f"{found.pin.name} offers no tools",
    )
    for each in found.proposals:
        for line in (*each.parts, *(f"suspicious: {cause}" for cause in each.findings)):
            note(f"{clip(each.tool.name, 50)}: {line}")
    for name in found.gone:
        note(f"{clip(name, 50)}: the server no longer has it")


@cli_command("""
hermes mcp login sentry
hermes mcp login sentry --paste                     the browser runs on another machine
hermes mcp login shop --client-id hermes --port 8765
hermes mcp login shop --scope "orders:read orders:write"
""")
@click.argument("name")
@click.option("--paste", is_flag=True, help="Paste the address that the browser ends at.")
@click.option("--no-browser", is_flag=True, help="Only show the address to open.")
@click.option("--port", default=0, help="Port of this machine for the redirect; any without it.")
@click.option(
    "--client-id", default="", help="A client registered by hand, or the URL of its document."
)
@click.option("--client-secret", default="", metavar="VARIABLE", help="Variable with its secret.")
@click.option("--scope", default="", metavar="SCOPES", help="Rights to ask for besides the usual.")
def login(ctx: click.Context, name: str, as_json: bool, **given: Any) -> None:
    """Log in at the server NAME with a browser (OAuth), and keep the tokens in the home.

    They are renewed by themselves. An earlier login stays until the new one works.
    """
    from hermes.integrations.mcp.pins import PinStore

    loaded = load_settings(ctx)
    pin = PinStore(loaded.home).load(name)
    options = {key: value for key, value in given.items() if key != "no_browser"}
    found = _log_in(loaded, pin, browser=not given["no_browser"], **options)
    if as_json:
        print_json({"server": name, "issuer": found.issuer, "expires_at": found.expires_at})
    else:
        echo(f"logged in at {name}")


@cli_command("hermes mcp logout sentry")
@click.argument("name")
def logout(ctx: click.Context, name: str, as_json: bool) -> None:
    """Forget the login at the server NAME; its review stays."""
    from hermes.app.mcp.login import log_out_of_server
    from hermes.integrations.mcp.pins import PinStore

    loaded = load_settings(ctx)
    anyio.run(log_out_of_server, loaded, PinStore(loaded.home).load(name))
    if as_json:
        print_json({"server": name, "logged_in": False})
    else:
        echo(f"logged out of {name}; the server itself may still accept its tokens until they end")


def _log_in(loaded: LoadedSettings, pin: "ServerPin", **given: Any) -> "StoredLogin":
    from hermes.app.mcp.login import LoginOptions, has_screen, log_in_at_server

    options = LoginOptions(**given)

    def show(address: str) -> None:
        note(f"open this address in a browser and log in at {pin.name}:")
        note(clean(address))
        if options.paste:
            note("the last page fails to load; copy its address from the browser, and paste it")
        elif not has_screen(loaded):
            note("there is no screen here; for a browser on another machine use --paste")

    def ask() -> str:
        return str(click.prompt("address", err=True))

    async def log_in() -> "StoredLogin":
        return await log_in_at_server(loaded, pin, options, show=show, ask=ask)

    return anyio.run(log_in)


@cli_command("hermes mcp list --json")
def list_(ctx: click.Context, as_json: bool) -> None:
    """List the servers and how their tools are classed, without starting any."""
    from hermes.integrations.mcp.pins import PinStore

    loaded = load_settings(ctx)
    pins, problems = PinStore(loaded.home).load_all()
    for problem in problems:
        note(problem)
    if as_json:
        print_json([_pin_data(pin, loaded) for pin in pins])
        return
    rows = []
    for pin in pins:
        classes = [each.effective_risk.value for each in pin.tools]
        counts = [classes.count(risk) for risk in RISKS]
        rows.append((pin.name, *counts, clip(clean(pin.address.describe), 60)))
    print_table(
        ("server", *RISKS, "reached by"),
        rows,
        empty="no MCP server; `hermes mcp add NAME -- COMMAND` adds one",
    )


@cli_command("hermes mcp recipes")
def recipes(ctx: click.Context, as_json: bool) -> None:
    """List the recipes of well-known servers, and how to install them."""
    from hermes.app.mcp.review import load_recipes

    found = load_recipes().values()
    if as_json:
        print_json(list(found))
        return
    print_table(
        ("recipe", "what", "needs", "install"),
        [
            (each.name, each.about, (*each.address.env, *each.address.headers), each.install)
            for each in found
        ],
    )


@cli_command("""
hermes mcp test time
hermes mcp test time --json
""")
@click.argument("name")
def test(ctx: click.Context, name: str, as_json: bool) -> None:
    """Start NAME, list its tools, and compare them with the review."""
    from hermes.app.mcp.review import look_at_server
    from hermes.integrations.mcp.pins import PinStore

    loaded = load_settings(ctx)
    pin = PinStore(loaded.home).load(name)
    found = anyio.run(look_at_server, loaded, Path.cwd(), pin)
    if as_json:
        print_json(_review_data(found))
    else:
        echo(f"{name} answers (protocol {found.protocol}) with {len(found.proposals)} tools")
    if found.changed:
        raise HermesError(
            f"{name} no longer offers what was reviewed; look at it: hermes mcp review {name}"
        )


@cli_command("hermes mcp serve")
def serve(ctx: click.Context) -> None:
    """Serve Hermes to another program over stdin and stdout, until that closes stdin.

    The program reads incidents, memory and skills, reports alerts and gives tasks. It cannot answer
    approvals, and its words are not those of a person. Over HTTP the same is at /mcp of the web
    port of `hermes up`, with a token of the right `chat`.
    """
    from hermes.app.web.mcp_service import serve_stdio

    anyio.run(serve_stdio, load_settings(ctx), Path.cwd())


@cli_command("hermes mcp remove grafana")
@click.argument("name")
def remove(ctx: click.Context, name: str, as_json: bool) -> None:
    """Forget the server NAME and its review."""
    from hermes.app.mcp.review import remove_server

    loaded = load_settings(ctx)
    anyio.run(remove_server, loaded, name)
    if as_json:
        print_json({"removed": name})
    else:
        echo(f"{name} is no longer used")


def _review_data(found: "ServerReview") -> dict[str, object]:
    return {
        "server": found.pin.name,
        "protocol": found.protocol,
        "changed": found.changed,
        "gone": list(found.gone),
        "tools": [
            {
                "name": each.tool.name,
                "description": each.tool.shown_description,
                "proposed": each.risk.value,
                "why": each.why,
                "class": each.current.value if each.current else None,
                "change": each.change,
                "differences": list(each.parts),
                "findings": list(each.findings),
                "refused": each.objection,
                "digest": "" if each.objection else each.tool.digest,
            }
            for each in found.proposals
        ],
    }


def _pin_data(pin: "ServerPin", loaded: LoadedSettings) -> dict[str, object]:
    from hermes.integrations.mcp.logins import LoginStore
    from hermes.integrations.mcp.pins import agent_tool_name

    return {
        "server": pin.name,
        "command": list(pin.address.command),
        "url": pin.address.url,
        "protocol": pin.protocol,
        "digest": pin.digest,
        "logged_in": LoginStore(loaded.home).exists(pin.name),
        "tools": [
            {
                "name": each.tool.name,
                "tool": agent_tool_name(pin.name, each.tool.name),
                "class": each.effective_risk.value,
                "by": each.by,
                "at": each.at.isoformat() if each.at else None,
                "digest": each.digest,
            }
            for each in pin.tools
        ],
    }
