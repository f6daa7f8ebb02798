"""`hermes skills`: what was learned to do, and the playbooks that do it without a model."""

import click

from hermes.cli.lazy import ExampleGroup
from hermes.cli.output import json_option

TABLE = {
    "list": ("hermes.cli.skills_read:list_", "Skills by category; --task ranks them for a task"),
    "show": ("hermes.cli.skills_read:show", "One skill, or one file of it"),
    "new": ("hermes.cli.skills_write:new", "Begin a skill of your own"),
    "edit": ("hermes.cli.skills_write:edit", "Change one; a bundled one becomes your own first"),
    "lint": ("hermes.cli.skills_lint:lint", "Every mistake in skills and playbooks, by line"),
    "run": ("hermes.cli.skills_run:run", "Run a playbook here, or see what it would do"),
    "history": ("hermes.cli.skills_past:history", "The versions that a skill has had"),
    "diff": ("hermes.cli.skills_past:diff", "What changed between two versions"),
    "rollback": ("hermes.cli.skills_past:rollback", "Bring an earlier version back"),
    "retire": ("hermes.cli.skills_past:retire", "Take a skill out of use; --back undoes it"),
    "compile": ("hermes.cli.skills_compile:compile_", "Prove a Python skill and make it a tool"),
    "distill": ("hermes.cli.skills_distill:distill", "A draft skill from a verified run"),
    "promote": ("hermes.cli.skills_promote:promote", "Where a skill stands; play its gate"),
    "review": ("hermes.cli.skills_review:review", "Learn from tasks that failed"),
    "stats": ("hermes.cli.skills_stats:stats", "How often each was used, and how it went"),
    "export": ("hermes.cli.skills_export:export", "Pack a skill as one signed file"),
    "import": ("hermes.cli.skills_import:import_", "Take in skills of others, after a close look"),
    "verify": ("hermes.cli.skills_verify:verify", "Check a bundle and take nothing in"),
    "publish": ("hermes.cli.skills_publish:publish", "Offer skills to others over HTTP or git"),
    "trust": ("hermes.cli.skills_trust:trust", "Which publishers are known, by which key"),
    "revoke": ("hermes.cli.skills_revoke:revoke", "Take back a skill, a digest or a key"),
}


@click.group(
    cls=ExampleGroup,
    table=TABLE,
    invoke_without_command=True,
    examples="""
hermes skills list --task "the disk of web-3 is full"
hermes skills show disk-full-runaway-log
hermes skills run disk-full-runaway-log --dry-run --label service=orders
hermes skills lint ./.hermes/skills
hermes skills history my-skill
""",
)
@json_option
@click.pass_context
def skills(ctx: click.Context, as_json: bool) -> None:
    """Proven ways to do things, written down. Without a command: list.

    A skill is a folder with a SKILL.md and, where the way is mechanical, a playbook.yaml that runs
    without a model. Bundled ones come with Hermes, yours lie in the home folder under skills/, a
    project's in .hermes/skills; of the same name the nearer one counts.
    """
    if ctx.invoked_subcommand is None:
        from hermes.cli.skills_read import list_

        ctx.invoke(list_, as_json=as_json)
