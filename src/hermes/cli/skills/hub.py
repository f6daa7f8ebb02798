"""`hermes skills search`, `install` (and `import`), `update`, `outdated`, `accept`."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import click

from hermes.app.people import user_name
from hermes.app.skills.hub import OWN_HUB, HubSkill, SignedSource, SkillHub, parse_hub
from hermes.app.skills.library import SKILLS_RUN
from hermes.cli.context import load_settings
from hermes.cli.lazy import cli_command
from hermes.cli.output import confirm, echo, note, print_json, print_table
from hermes.cli.render.terminal_text import clean
from hermes.cli.skills.bundles import import_bundles, print_placed
from hermes.cli.skills.context import load_library, with_journal
from hermes.cli.skills.exchange_context import examination_data, print_examination
from hermes.core.errors import HermesError, PolicyDenied, SettingsError
from hermes.settings.load import LoadedSettings
from hermes.skills.exchange.bundle import BUNDLE_SUFFIX
from hermes.skills.exchange.importer import QUARANTINE_FOLDER, SkillImporter
from hermes.skills.exchange.index import is_http_url
from hermes.skills.format import SKILL_NAME
from hermes.skills.hub.records import QuarantinedSkill, list_quarantine
from hermes.skills.hub.source import SkillSource, parse_source
from hermes.skills.library import SkillLibrary


@cli_command("""
hermes skills search postgres backup
hermes skills search pdf --refresh --json
""")
@click.argument("words", nargs=-1, required=True)
@click.option("--refresh", is_flag=True, help="Ask the hubs now; else at most once a day.")
def search(ctx: click.Context, words: tuple[str, ...], refresh: bool, as_json: bool) -> None:
    """Search the hubs for skills whose name or description contains all WORDS.

    The hubs are the bundled skills and those of the setting skills.hubs. Nothing is installed.
    """
    hub = SkillHub(load_settings(ctx))
    found = anyio.run(lambda: hub.search(words, refresh=refresh))
    _print_warnings(hub)
    rows = [(each.name, each.hub, clean(each.description)[:90]) for each in found]
    if as_json:
        print_json(found)
    elif rows:
        print_table(("name", "hub", "description"), rows)
        first = next((each for each in found if each.hub != OWN_HUB), None)
        if first is not None:
            echo(f"install one: hermes skills install {first.source}")
    elif not hub.warnings:
        echo(f"no skill matches {' '.join(words)}")
    if hub.warnings and not found:
        raise HermesError(
            f"nothing was found for {' '.join(words)}, but not every hub answered; "
            "try again later, or change skills.hubs"
        )


def _print_warnings(hub: SkillHub) -> None:
    for warning in hub.warnings:
        note(clean(warning))


@cli_command("""
hermes skills install anthropics/skills/skills/pdf
hermes skills install openai/skills linear gh-fix-ci
hermes skills install OWNER/REPO/PATH@v1.2
hermes skills install ./my-skills port-taken
hermes skills install https://skills.example.com disk-full-runaway-log
hermes skills install incident-commander
""")
@click.argument("source", required=False)
@click.argument("names", nargs=-1)
@click.option("--all", "every", is_flag=True, help="Every skill of the source.")
@click.option("--subscribed", is_flag=True, help="From every publisher with an address.")
@click.option("--yes", is_flag=True, help="Install what is not blocked, without asking.")
@click.option("--no-sandbox", is_flag=True, help="Without a sandbox: only scan it.")
@click.option("--no-evidence", is_flag=True, help="Do not replay its evidence.")
def install(ctx: click.Context, every: bool, as_json: bool, **given: Any) -> None:
    """Install skills from SOURCE: OWNER/REPO[/PATH][@REF], a folder, git, a site, or a NAME.

    The whole folder of a skill comes, pinned to its commit and digest. It is quarantined,
    scanned and tried in a sandbox, and becomes a draft. Signed bundles and addresses work as with
    `hermes skills import`. What is stopped stays out; a person may accept single findings
    with `hermes skills accept`.
    """
    _install(ctx, every, as_json=as_json, **given)


def _install(ctx: click.Context, every: bool, **given: Any) -> None:
    source: str | None = given["source"]
    if source is None or given["subscribed"]:
        import_bundles(ctx, **given)
        return
    if given["as_json"] and not given["yes"]:
        raise SettingsError("--json needs --yes: it does not ask")
    loaded, library = load_library(ctx)
    hub = SkillHub(loaded)
    found, names = _resolve(hub, library, source, given["names"], quiet=given["as_json"])
    if found is None:
        import_bundles(ctx, **given)
        return
    if not found:
        if given["as_json"]:
            print_json([])
        return
    chosen = _choose(found, names, source, every=every)
    report = (lambda _: None) if given["as_json"] else note
    importer = hub.open_importer(report, sandbox=not given["no_sandbox"])
    installation = HubInstallation(
        loaded, library, hub, importer, ask=not given["yes"], quiet=given["as_json"]
    )
    for each in chosen:
        installation.install(each)
    installation.finish()


@cli_command("""
hermes skills import my.skill
hermes skills import https://skills.example.com disk-full-runaway-log
hermes skills import git+https://example.com/team/skills.git --yes
hermes skills import --subscribed --yes
""")
@click.argument("source", required=False)
@click.argument("names", nargs=-1)
@click.option("--subscribed", is_flag=True, help="From every publisher with an address.")
@click.option("--yes", is_flag=True, help="Import what is not blocked, without asking.")
@click.option("--no-sandbox", is_flag=True, help="Without a sandbox: only scan it.")
@click.option("--no-evidence", is_flag=True, help="Do not replay its evidence.")
def import_(ctx: click.Context, as_json: bool, **given: Any) -> None:
    """Import skills from SOURCE: a bundle, a folder, a git repository or an address.

    Each skill is verified, quarantined, scanned and compared with your version, and its scripts
    run in a sandbox with canary secrets. It becomes a draft: a signature never grants trust.
    Another name for `hermes skills install`, which takes repositories of GitHub too.
    """
    _install(ctx, every=False, as_json=as_json, **given)


def _resolve(
    hub: SkillHub, library: SkillLibrary, source: str, names: tuple[str, ...], *, quiet: bool
) -> tuple[list[HubSkill] | None, tuple[str, ...]]:
    """Return None for a signed source; nothing when a bundled skill was named."""
    parsed = parse_source(source)
    if parsed is None and is_http_url(source) and not source.endswith(BUNDLE_SUFFIX):
        parsed = SkillSource(kind="site", place=source)
    if parsed is None and SKILL_NAME.fullmatch(source) and not Path(source).exists():
        if source in {each.name for each in library.skills if each.origin == "bundled"}:
            if not quiet:
                echo(f"{source} comes with Hermes and is in use; see: hermes skills show {source}")
            return [], ()
        return anyio.run(_find_named, hub, source), (source,)
    if parsed is None:
        return None, names
    try:
        return anyio.run(hub.fetch, parsed), names
    except SignedSource:
        return None, names


async def _find_named(hub: SkillHub, name: str) -> list[HubSkill]:
    found = [each for each in await hub.find_by_name(name) if each.hub != OWN_HUB]
    _print_warnings(hub)
    if not found:
        raise SettingsError(f"no hub has a skill {name!r}; try: hermes skills search {name}")
    if len(found) > 1:
        places = ", ".join(each.source for each in found)
        raise SettingsError(f"several hubs have a skill {name!r}; name one: {places}")
    offered = await hub.fetch(parse_hub(found[0].hub))
    return [each for each in offered if each.found.name == name]


def _choose(
    found: list[HubSkill], names: tuple[str, ...], source: str, *, every: bool
) -> list[HubSkill]:
    offered = ", ".join(each.found.name for each in found[:60])
    if missing := [name for name in names if name not in {each.found.name for each in found}]:
        raise SettingsError(f"{source} has no skill {missing[0]!r}; it has: {offered}")
    if len(found) > 1 and not names and not every:
        raise SettingsError(f"{source} has {len(found)} skills; name them, or --all: {offered}")
    return [each for each in found if not names or each.found.name in names]


@dataclass
class HubInstallation:
    """Skills that are installed one after the other, and what became of each."""

    loaded: LoadedSettings
    library: SkillLibrary
    hub: SkillHub
    importer: SkillImporter
    ask: bool
    quiet: bool
    rows: list[dict[str, Any]] = field(default_factory=list)
    stopped: list[str] = field(default_factory=list)

    def install(self, offered: HubSkill) -> None:
        name, by = offered.found.name, user_name()
        examined = anyio.run(self.hub.examine, self.importer, offered, self._existing(name))
        row = examination_data(examined)
        row |= {"source": str(offered.source), "commit": offered.commit}
        self.rows.append(row)
        if not self.quiet:
            at = f" at {offered.commit[:12]}" if offered.commit else ""
            echo(clean(f"{offered.source}{at}"))
            print_examination(examined)
        if examined.blocked:
            self.stopped.append(name)
        elif not self.ask or confirm(f"Install {name}?"):
            placed = self.hub.admit(self.importer, examined, offered, self._existing(name), by)
            row |= {"placed": placed.folder, "how": placed.how, "conflicts": placed.conflicts}
            if placed.how != "same":
                with_journal(
                    self.loaded,
                    lambda journal: self.hub.record(journal, SKILLS_RUN, offered, placed, by),
                )
            if not self.quiet:
                print_placed(placed)

    def _existing(self, name: str) -> Path | None:
        """The folder that is in use now: another process may have installed it meanwhile."""
        present = SkillLibrary(self.library.roots).skills_by_name.get(name)
        return present.folder if present is not None else None

    def finish(self) -> None:
        if self.quiet:
            print_json(self.rows)
        if self.stopped:
            names = ", ".join(self.stopped)
            raise PolicyDenied(
                f"stopped and kept in quarantine: {names}. Read the findings; to accept one: "
                f"hermes skills accept {self.stopped[0]} NUMBER --reason TEXT"
            )


@cli_command("""
hermes skills outdated
hermes skills outdated pdf --json
""")
@click.argument("names", nargs=-1)
def outdated(ctx: click.Context, names: tuple[str, ...], as_json: bool) -> None:
    """Compare skills that were installed from hubs with what is there now."""
    hub = SkillHub(load_settings(ctx))
    found = anyio.run(hub.check_updates, names)
    if as_json:
        print_json(found)
        return
    if not found:
        echo("no skill was installed from a hub")
        return
    rows = [
        (each.name, each.status, each.commit[:12], each.newest[:12], clean(each.source), each.why)
        for each in found
    ]
    print_table(("name", "status", "installed", "newest", "source", ""), rows)


@cli_command("""
hermes skills update
hermes skills update pdf --yes
""")
@click.argument("names", nargs=-1)
@click.option("--yes", is_flag=True, help="Install what is not blocked, without asking.")
@click.option("--no-sandbox", is_flag=True, help="Without a sandbox: only scan it.")
def update(
    ctx: click.Context, names: tuple[str, ...], yes: bool, no_sandbox: bool, as_json: bool
) -> None:
    """Install the newest version of skills that came from hubs, after the same checks.

    Your own changes are merged with theirs; where both changed the same, both are kept.
    """
    if as_json and not yes:
        raise SettingsError("--json needs --yes: it does not ask")
    loaded, library = load_library(ctx)
    hub = SkillHub(loaded)
    importer = hub.open_importer((lambda _: None) if as_json else note, sandbox=not no_sandbox)
    work = HubInstallation(loaded, library, hub, importer, ask=not yes, quiet=as_json)
    for each in anyio.run(hub.check_updates, names):
        if each.status == "outdated":
            work.install(anyio.run(hub.fetch_installed, each.name))
        elif not as_json:
            echo(clean(f"{each.name}: {each.status}{': ' if each.why else ''}{each.why}"))
    work.finish()


@cli_command("""
hermes skills accept
hermes skills accept deploy-helper
hermes skills accept deploy-helper 2 3 --reason "our own host, checked with the platform team"
""")
@click.argument("name", required=False)
@click.argument("numbers", nargs=-1, type=int)
@click.option("--reason", default="", help="Why it is acceptable; recorded with your name.")
def accept(
    ctx: click.Context, name: str | None, numbers: tuple[int, ...], reason: str, as_json: bool
) -> None:
    """Accept findings of a skill in quarantine, by their NUMBERS, with a reason.

    Without NUMBERS: show the findings. It holds for exactly this content: when the skill changes,
    the finding stops it again. There is no way to accept all at once.
    """
    loaded = load_settings(ctx)
    kept = list_quarantine(loaded.home / "skills" / QUARANTINE_FOLDER)
    if name is None:
        _print_quarantine(kept, as_json=as_json)
        return
    skill = next((each for each in reversed(kept) if each.name == name), None)
    if skill is None:
        known = ", ".join(each.name for each in kept) or "nothing"
        raise SettingsError(f"{name} is not in quarantine; there is: {known}")
    hub = SkillHub(loaded)
    if numbers:
        hub.records.accept(skill, numbers, reason, user_name())
    findings = hub.records.apply_accepted(skill.digest, skill.findings)
    left = [number for number, each in enumerate(findings, 1) if each.blocks]
    if as_json:
        print_json({**_quarantine_data(skill), "findings": findings, "blocking": left})
        return
    rows = [
        (number, "stopped" if each.blocks else "note", f"{each.file}:{each.line}", each.cause)
        for number, each in enumerate(findings, 1)
    ]
    print_table(("#", "", "where", "what"), rows)
    if left:
        echo(f"still stopped by {', '.join(map(str, left))}")
    else:
        echo(clean(f"accepted for this content; now: hermes skills install {skill.source}"))


def _print_quarantine(kept: list[QuarantinedSkill], *, as_json: bool) -> None:
    if as_json:
        print_json([_quarantine_data(each) for each in kept])
    elif not kept:
        echo("nothing is in quarantine")
    else:
        rows = [(each.name, each.digest[:12], len(each.findings), each.source) for each in kept]
        print_table(("name", "digest", "findings", "source"), rows)


def _quarantine_data(skill: QuarantinedSkill) -> dict[str, Any]:
    return {
        "name": skill.name,
        "digest": skill.digest,
        "source": skill.source,
        "finding_count": len(skill.findings),
    }
