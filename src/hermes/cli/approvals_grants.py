"""`hermes approvals grants` and `revoke`: leave to do exactly the same again."""

from datetime import UTC, datetime, timedelta

import click

from hermes.app.approving import user_name
from hermes.app.gate import always_file
from hermes.cli.approvals_found import recalled
from hermes.cli.lazy import Examples
from hermes.cli.loading import settings_for
from hermes.cli.output import emit_json, json_option, say, table
from hermes.cli.render_safe import clip
from hermes.cli.stored import ask_journal
from hermes.core.errors import HermesError
from hermes.core.events.approvals import GrantRevoked
from hermes.memory.opening import Store
from hermes.policy.approvals_past import Held
from hermes.settings.load import Loaded


@click.command(cls=Examples, examples="hermes approvals grants --json")
@json_option
@click.pass_context
def grants(ctx: click.Context, as_json: bool) -> None:
    """List what may be done again without asking, each for one exact action of one run.

    What was allowed for good is listed by `hermes policy always`.
    """
    found = _live(settings_for(ctx))
    if as_json:
        emit_json([_row(each) for each in found])
        return
    rows = [_row(each) for each in found]
    table(
        ("id", "left", "until", "by", "action"),
        [(r["id"], r["left"], r["until"], r["by"], clip(str(r["action"]), 60)) for r in rows],
        empty="nothing may be done again without asking",
    )


@click.command(cls=Examples, examples="hermes approvals revoke grant-20260306-031500-4f2a1c")
@click.argument("id")
@json_option
@click.pass_context
def revoke(ctx: click.Context, id: str, as_json: bool) -> None:
    """Take back the leave ID: it is asked about again, also in a process that runs now.

    The name of a rule that an answer "always" made works as well.
    """
    loaded = settings_for(ctx)
    name = _revoke_rule(loaded, id) if id.startswith("always-") else _revoke_grant(loaded, id)
    if as_json:
        emit_json({"id": name, "revoked": True})
    else:
        say(f"{name} is asked about again")


def _revoke_rule(loaded: Loaded, name: str) -> str:
    from hermes.policy.allowlist import revoke as revoke_always

    if not revoke_always(always_file(loaded), name):
        raise HermesError(f"there is no {name!r}; `hermes policy always` lists them")
    return name


def _revoke_grant(loaded: Loaded, id: str) -> str:
    found = [each for each in _live(loaded) if id in (each.grant.id, each.grant.id[-len(id) :])]
    if len(found) != 1:
        raise HermesError(f"there is no leave {id!r}; `hermes approvals grants` lists them")
    grant = found[0].grant

    async def change(journal: Store) -> None:
        await journal.append(GrantRevoked(run=grant.run, grant=grant.id, by=user_name()))

    ask_journal(loaded, change)
    return grant.id


def _live(loaded: Loaded) -> list[Held]:
    now = datetime.now(UTC)
    return [
        held
        for held in recalled(loaded).grants.values()
        if not held.revoked
        and held.grant.given_at <= now < _until(held)
        and (held.grant.uses == 0 or held.used < held.grant.uses)
    ]


def _until(held: Held) -> datetime:
    return held.grant.given_at + timedelta(seconds=held.grant.valid_for)


def _row(held: Held) -> dict[str, object]:
    grant = held.grant
    return {
        "id": grant.id,
        "left": grant.uses - held.used if grant.uses else "any",
        "used": held.used,
        "until": f"{_until(held).astimezone():%Y-%m-%d %H:%M}",
        "by": ", ".join(grant.by),
        "scope": grant.scope,
        "rule": grant.rule,
        "run": grant.run,
        "action": held.shown,
    }
