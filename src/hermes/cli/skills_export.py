"""`hermes skills export`."""

from pathlib import Path

import click

from hermes.app.exchange import Exchange, measured_in
from hermes.cli.lazy import Examples
from hermes.cli.output import emit_json, json_option, say
from hermes.cli.skills_desk import library_for, with_journal
from hermes.core.errors import HermesError
from hermes.core.events.skills import SkillMeasured
from hermes.memory.opening import exists
from hermes.settings.load import Loaded
from hermes.skills.exchange.bundle import SUFFIX
from hermes.skills.exchange.sealing import short


@click.command(
    cls=Examples,
    examples="hermes skills export disk-full-runaway-log\n"
    "hermes skills export my-skill -o /tmp/my.skill --as team-web",
)
@click.argument("name")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="The file to write.")
@click.option("--as", "publisher", default="", help="Your name as a publisher; chosen once.")
@json_option
@click.pass_context
def export(
    ctx: click.Context, name: str, output: Path | None, publisher: str, as_json: bool
) -> None:
    """Pack skill NAME as one signed file for other agents.

    In it: the skill, what it may do, what was measured about it, where it comes from. The key is
    made with the first export and lies in the home under exchange/.
    """
    loaded, library = library_for(ctx)
    skill, exchange = library.find(name), Exchange(loaded)
    data = exchange.export(skill, evidence_of(loaded, name), publisher)
    target = output or Path(f"{name}{SUFFIX}")
    try:
        target.write_bytes(data)
    except OSError as error:
        raise HermesError(f"cannot write {target}: {error.strerror}") from error
    version, digest = exchange.own().versions[name]
    key = exchange.seal().key
    if as_json:
        emit_json({"file": str(target), "version": version, "digest": digest, "key": key})
        return
    say(f"{target}: {name} version {version}, signed by {exchange.name()} with {short(key)}")


def evidence_of(loaded: Loaded, name: str) -> list[SkillMeasured]:
    if not exists(loaded.store):
        return []
    return with_journal(loaded, lambda journal: measured_in(journal, name))
