"""`hermes tools`: what the agent can do here, and why not the rest."""

import shutil

import click
import msgspec

from hermes.cli.lazy import ExampleGroup, Examples
from hermes.cli.loading import settings_for
from hermes.cli.output import emit_json, fields, json_option, note, say, table
from hermes.core.errors import HermesError
from hermes.core.plugins import names
from hermes.core.protocols import Tool
from hermes.settings.load import Loaded
from hermes.tools.catalogue import Catalogue, build
from hermes.tools.declare import Needs
from hermes.tools.declared import Declared, load_folder
from hermes.tools.settings import ToolSettings
from hermes.tools.toolsets import Availability, Present, Toolset, with_own

TABLE = {
    "list": ("hermes.cli.tools:list_", "All tools: toolset, risk, on or off, or what is missing"),
    "show": ("hermes.cli.tools:show", "What one tool is for and what it takes"),
    "sets": ("hermes.cli.tools:sets", "All toolsets"),
}

Row = dict[str, object]
ABOVE = {"delegate": ("read", "Subagents that work side by side; each conversation brings it.")}
"""Tools that are made anew for each conversation and so have no entry point."""


@click.group(
    cls=ExampleGroup,
    table=TABLE,
    invoke_without_command=True,
    examples="""
hermes tools                                        all tools
hermes tools show terminal
hermes config set tools.toolsets file,planning      give the agent fewer
hermes config set tools.disabled execute_code       take one away
""",
)
@json_option
@click.pass_context
def tools(ctx: click.Context, as_json: bool) -> None:
    """What the agent can do here, and why not the rest. Without a command: list."""
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_, as_json=as_json)


@click.command("list", cls=Examples, examples="hermes tools list --json")
@json_option
@click.pass_context
def list_(ctx: click.Context, as_json: bool) -> None:
    """List all tools with toolset, risk, and whether the agent has them."""
    loaded = settings_for(ctx)
    rows = _rows(loaded)
    if as_json:
        emit_json(rows)
        return
    table(
        ("tool", "toolset", "risk", "here", "for"),
        [(row["tool"], row["toolsets"], row["risk"], row["here"], row["about"]) for row in rows],
    )
    for mistake in _declared(loaded).mistakes:
        note(mistake)


@click.command(cls=Examples, examples="hermes tools show patch --json")
@click.argument("name")
@json_option
@click.pass_context
def show(ctx: click.Context, name: str, as_json: bool) -> None:
    """Show what tool NAME is for and what it takes."""
    everything = _everything(settings_for(ctx))
    found = everything.tools.get(name)
    if found is None:
        lacking = next((one for one in everything.absent if one.tool == name), None)
        if lacking is None:
            known = ", ".join(sorted(everything.tools))
            raise HermesError(f"there is no tool {name!r}; there are: {known}")
        raise HermesError(f"{name} is not here: {lacking.why}. {lacking.how}")
    if as_json:
        emit_json(msgspec.structs.asdict(found.spec))
        return
    say(found.spec.description)
    say()
    required = found.spec.parameters.get("required", [])
    for parameter, schema in found.spec.parameters.get("properties", {}).items():
        optional = "" if parameter in required else " (optional)"
        fields({f"  {parameter}": f"{schema.get('description', '')}{optional}"})
    note(f"risk: {found.spec.risk}")


@click.command(cls=Examples, examples="hermes tools sets")
@json_option
@click.pass_context
def sets(ctx: click.Context, as_json: bool) -> None:
    """List all toolsets; `hermes config set tools.toolsets A,B` chooses."""
    settings = settings_for(ctx).settings.tools
    known = with_own(settings.sets)
    rows = [
        {
            "toolset": name,
            "on": name in settings.toolsets,
            "tools": each.tools,
            "includes": each.includes,
            "about": each.about,
        }
        for name, each in known.items()
    ]
    if as_json:
        emit_json(rows)
    else:
        table(("toolset", "on", "tools", "includes", "for"), [tuple(r.values()) for r in rows])


def _rows(loaded: Loaded) -> list[Row]:
    settings = loaded.settings.tools
    known = with_own(settings.sets)
    built = build(settings, extra=_declared(loaded).tools)
    chosen = {*built.tools, *(one.tool for one in built.absent if one.tool in ABOVE)}
    everything = _everything(loaded)
    rows = [
        _row(tool, _sets_of(name, known), name in chosen) for name, tool in everything.tools.items()
    ]
    return rows + [_absent(one, known, chosen) for one in everything.absent]


def _absent(lacking: Availability, known: dict[str, Toolset], chosen: set[str]) -> Row:
    toolsets = _sets_of(lacking.tool, known)
    if lacking.tool in ABOVE:
        risk, about = ABOVE[lacking.tool]
        return _plain(lacking.tool, toolsets, risk, lacking.tool in chosen, about)
    row = _plain(lacking.tool, toolsets, "", False, lacking.how)
    return row | {"here": lacking.why}


def _row(tool: Tool, toolsets: list[str], on: bool) -> Row:
    about = tool.spec.description.partition("\n")[0]
    return _plain(tool.spec.name, toolsets, str(tool.spec.risk), on, about)


def _plain(name: str, toolsets: list[str], risk: str, on: bool, about: str) -> Row:
    here = "on" if on else "off"
    return {
        "tool": name,
        "toolsets": toolsets,
        "risk": risk or None,
        "on": on,
        "here": here,
        "about": about,
    }


def _sets_of(name: str, known: dict[str, Toolset]) -> list[str]:
    return [toolset for toolset, each in known.items() if name in each.tools] or ["own"]


def _everything(loaded: Loaded) -> Catalogue:
    """As if all toolsets were on, with what is missing for each."""
    own = loaded.settings.tools.sets
    asked = ToolSettings(toolsets=tuple(with_own(own)), sets=own)
    extra = _declared(loaded).tools
    built = build(asked, extra=extra).tools
    needs = [getattr(tool, "needs", Needs()) for tool in built.values()]
    variables = frozenset(name for name, value in loaded.secrets.items() if value)
    programs = None  # only on this very machine can we look without starting anything
    if loaded.settings.terminal.backend == "local":
        programs = frozenset(p for need in needs for p in need.programs if shutil.which(p))
    return build(asked, present=Present(programs=programs, variables=variables), extra=extra)


def _declared(loaded: Loaded) -> Declared:
    """Tools that the operator wrote down in <home>/tools."""
    return load_folder(loaded.home / "tools", taken=names("tools"))
