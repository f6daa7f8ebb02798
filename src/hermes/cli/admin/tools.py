"""`hermes tools`: lists the tools of the agent, and why others are unavailable."""

from pathlib import Path

import click
import msgspec

from hermes.app.mcp.servers import list_mcp_tools
from hermes.app.systems import list_declared_tools
from hermes.app.tools.browsers import list_browser_tools
from hermes.app.tools.tooling import check_provider, host_capabilities
from hermes.cli import exit_codes
from hermes.cli.context import load_settings
from hermes.cli.lazy import cli_command, cli_group
from hermes.cli.output import echo, note, print_fields, print_json, print_table
from hermes.cli.render.terminal_text import clip
from hermes.core.errors import HermesError
from hermes.core.protocols import Tool
from hermes.settings.load import LoadedSettings
from hermes.tools.settings import ToolSettings
from hermes.tools.toolsets import (
    ToolAvailability,
    ToolCatalog,
    Toolset,
    build_catalog,
    with_members,
    with_own_toolsets,
)

TOOL_COMMANDS = {
    "list": ("admin.tools:list_", "All tools: toolset, risk, on or off, or what is missing"),
    "show": ("admin.tools:show", "The purpose and the parameters of one tool"),
    "sets": ("admin.tools:sets", "All toolsets"),
    "import": ("admin.tools:import_", "Translate a file of HolmesGPT into tools of your own"),
}

ToolRow = dict[str, object]
CONVERSATION_TOOLS = {
    "delegate": ("read", "Subagents that work in parallel; every conversation has it.")
}
"""Tools that are created for each conversation and so have no entry point."""


@cli_group(
    TOOL_COMMANDS,
    """
hermes tools                                        all tools
hermes tools show terminal
hermes config set tools.toolsets file,planning      give the agent fewer tools
hermes config set tools.disabled execute_code       remove one
""",
    default="list",
)
def tools() -> None:
    """The tools of the agent, and why others are unavailable. Without a command: list."""


@cli_command("hermes tools list --json")
def list_(ctx: click.Context, as_json: bool) -> None:
    """List all tools with toolset, risk, and whether the agent has them."""
    loaded = load_settings(ctx)
    rows = _tool_rows(loaded)
    if as_json:
        print_json(rows)
        return
    available = [row for row in rows if row["here"] in ("on", "off")]
    print_table(
        ("tool", "toolset", "risk", "here", "for"),
        [
            (row["tool"], row["toolsets"], row["risk"], row["here"], row["about"])
            for row in available
        ],
    )
    _print_unavailable([row for row in rows if row not in available])
    if any(row["here"] == "off" for row in available):
        chosen = ",".join(loaded.settings.tools.toolsets)
        note(f"to turn a toolset on: hermes config set tools.toolsets {chosen},TOOLSET")
    for problem in list_declared_tools(loaded).problems:
        note(problem)


@cli_command("hermes tools show patch --json")
@click.argument("name")
def show(ctx: click.Context, name: str, as_json: bool) -> None:
    """Show the purpose and the parameters of the tool NAME."""
    loaded = load_settings(ctx)
    if name in CONVERSATION_TOOLS:
        risk, about = CONVERSATION_TOOLS[name]
        if as_json:
            print_json({"name": name, "description": about, "risk": risk})
        else:
            echo(about)
            note(f"risk: {risk}")
        return
    everything = _full_catalog(loaded)
    found = everything.tools.get(name) or list_mcp_tools(loaded).get(name)
    if found is None:
        lacking = next((one for one in everything.absent if one.tool == name), None)
        if lacking is None:
            known = ", ".join(sorted({*everything.tools, *CONVERSATION_TOOLS}))
            raise HermesError(f"there is no tool {name!r}; there are: {known}")
        raise HermesError(f"{name} is not available: {lacking.why}. {lacking.how}")
    if as_json:
        print_json(msgspec.structs.asdict(found.spec))
        return
    echo(found.spec.description)
    echo()
    required = found.spec.parameters.get("required", [])
    for parameter, schema in found.spec.parameters.get("properties", {}).items():
        optional = "" if parameter in required else " (optional)"
        print_fields({f"  {parameter}": f"{schema.get('description', '')}{optional}"})
    note(f"risk: {found.spec.risk}")


@cli_command("hermes tools sets")
def sets(ctx: click.Context, as_json: bool) -> None:
    """List all toolsets; `hermes config set tools.toolsets A,B` chooses."""
    loaded = load_settings(ctx)
    settings = loaded.settings.tools
    known = with_members(with_own_toolsets(settings.sets), list_declared_tools(loaded).members)
    chosen = _chosen_toolsets(settings, known)
    rows = [
        {
            "toolset": name,
            "on": name in chosen,
            "tools": each.tools,
            "includes": each.includes,
            "about": each.about,
        }
        for name, each in known.items()
    ]
    if as_json:
        print_json(rows)
    else:
        print_table(
            ("toolset", "on", "tools", "includes", "for"),
            [
                (
                    row["toolset"],
                    row["on"],
                    len(known[str(row["toolset"])].tools),
                    clip(", ".join(known[str(row["toolset"])].includes), 26),
                    row["about"],
                )
                for row in rows
            ],
        )
        note("which tools these are: hermes tools, or hermes tools sets --json")


@cli_command("""
hermes tools import kubernetes.yaml
hermes tools import toolsets.yaml --dry-run --json
""")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--dry-run", is_flag=True, help="Write nothing.")
@click.option("--replace", is_flag=True, help="Replace the file of an earlier import.")
def import_(ctx: click.Context, file: Path, dry_run: bool, replace: bool, as_json: bool) -> int:
    """Translate the toolsets in FILE (YAML of HolmesGPT) into <home>/tools.

    What cannot be translated is named with its reason. The policy judges the command of each tool.

    Exit code 1 when nothing could be translated.
    """
    from hermes.app.systems import import_toolsets

    done = import_toolsets(load_settings(ctx), file, dry_run=dry_run, replace=replace)
    if as_json:
        print_json(done)
    else:
        for name, why in done.refused:
            note(f"not translated: {name}: {why}")
        if done.changing:
            note(f"these change something, and are asked about: {', '.join(done.changing)}")
        if done.replaced:
            note(f"these take the place of bundled tools: {', '.join(done.replaced)}")
        written = "would be written to" if dry_run else "are in"
        echo(f"{len(done.tools)} tools {written} {done.path}, {len(done.refused)} cannot be used")
    return exit_codes.OK if done.tools else exit_codes.FAILED


def _print_unavailable(rows: list[ToolRow]) -> None:
    """One block for the tools that lack the same thing."""
    by_need: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        by_need.setdefault((str(row["here"]), str(row["about"])), []).append(str(row["tool"]))
    for (why, how), names in by_need.items():
        echo(f"\n{', '.join(names)}")
        echo(f"  {why}")
        echo(f"  {how}")


def _chosen_toolsets(settings: ToolSettings, known: dict[str, Toolset]) -> set[str]:
    """The toolsets of the settings and all that they include."""
    chosen: set[str] = set()
    waiting = list(settings.toolsets)
    while waiting:
        name = waiting.pop()
        if name in known and name not in chosen and name not in settings.disabled:
            chosen.add(name)
            waiting += known[name].includes
    return chosen


def _tool_rows(loaded: LoadedSettings) -> list[ToolRow]:
    settings = loaded.settings.tools
    declared = list_declared_tools(loaded)
    known = with_members(with_own_toolsets(settings.sets), declared.members)
    extra = {**declared.tools, **list_browser_tools(loaded)}
    built = build_catalog(settings, extra=extra, home=loaded.home, members=declared.members)
    chosen = {*built.tools, *(one.tool for one in built.absent if one.tool in CONVERSATION_TOOLS)}
    everything = _full_catalog(loaded)
    rows = [
        _available_row(tool, _toolsets_of(name, known), name in chosen)
        for name, tool in everything.tools.items()
    ]
    rows += [_unavailable_row(one, known, chosen) for one in everything.absent]
    return rows + [_available_row(tool, ["mcp"], True) for tool in list_mcp_tools(loaded).values()]


def _unavailable_row(
    lacking: ToolAvailability, known: dict[str, Toolset], chosen: set[str]
) -> ToolRow:
    toolsets = _toolsets_of(lacking.tool, known)
    if lacking.tool in CONVERSATION_TOOLS:
        risk, about = CONVERSATION_TOOLS[lacking.tool]
        return _tool_row(lacking.tool, toolsets, risk, lacking.tool in chosen, about)
    row = _tool_row(lacking.tool, toolsets, "", False, lacking.how)
    return row | {"here": lacking.why}


def _available_row(tool: Tool, toolsets: list[str], on: bool) -> ToolRow:
    about = tool.spec.description.partition("\n")[0]
    return _tool_row(tool.spec.name, toolsets, str(tool.spec.risk), on, about)


def _tool_row(name: str, toolsets: list[str], risk: str, on: bool, about: str) -> ToolRow:
    here = "on" if on else "off"
    return {
        "tool": name,
        "toolsets": toolsets,
        "risk": risk or None,
        "on": on,
        "here": here,
        "about": about,
    }


def _toolsets_of(name: str, known: dict[str, Toolset]) -> list[str]:
    return [toolset for toolset, each in known.items() if name in each.tools] or ["own"]


def _full_catalog(loaded: LoadedSettings) -> ToolCatalog:
    """All tools, as if all toolsets were on, with missing requirements."""
    own = loaded.settings.tools.sets
    asked = ToolSettings(toolsets=tuple(with_own_toolsets(own)), sets=own)
    declared = list_declared_tools(loaded)
    extra, members = {**declared.tools, **list_browser_tools(loaded)}, declared.members
    return build_catalog(
        asked,
        present=host_capabilities(loaded),
        extra=extra,
        home=loaded.home,
        members=members,
        check=lambda name: check_provider(name, loaded),
    )
