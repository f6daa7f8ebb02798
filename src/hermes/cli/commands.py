"""All commands as data, so that `hermes --help` loads none of them.

To add a command, add a line to its group here, and a module with a click command of the same name.
"""

CommandTable = dict[str, tuple[str, str]]
"""Name → module, and one line of help."""

COMMAND_GROUPS: tuple[tuple[str, str, CommandTable], ...] = (
    (
        "Monitor this host",
        "hermes watch --discover    find services, then: hermes watch",
        {
            "watch": ("monitoring.watch", "Detect outages, fix them under rules, verify, report"),
            "up": ("monitoring.watch", "Watch, schedules, chats and API in one process"),
            "incident": ("groups.operations", "Outages: list, show, report, open, close, count"),
            "health": ("monitoring.health", "Is anything wrong right now? Run every check once"),
            "changes": ("states.changes", "Show what changed on the host, when and by whom"),
            "state": ("groups.operations", "States of the host: list, show, compare, record"),
            "approvals": ("groups.operations", "Answer approval requests; list grants"),
            "cron": ("groups.operations", "Jobs by schedule: add, list, run, pause, history"),
            "task": ("groups.operations", "Add a job: hermes task add --cron '0 9 * * *' TASK"),
            "maintenance": ("groups.operations", "Silence alerts for a while: add, list, end"),
            "service": (
                "groups.operations",
                "Keep the watch running: install, status, logs, uninstall",
            ),
        },
    ),
    (
        "Chat",
        'hermes chat -q "is anything wrong?"',
        {
            "gateway": (
                "groups.people",
                "Talk with people through chat channels: run, status, install",
            ),
            "chat": ("chat_command", "Talk to the agent; -q asks one question and ends"),
            "acp": ("chat_command", "Talk with an editor (Zed and others) over stdin and stdout"),
            "sessions": ("sessions.commands", "List, show, search, import, export conversations"),
            "recall": ("sessions.search", "Show what earlier sessions say about a question"),
            "memory": ("groups.knowledge", "Known facts: list, show, add, forget, audit, export"),
        },
    ),
    (
        "Set up",
        "hermes setup    provider, key, model, environment, announcements",
        {
            "setup": ("admin.setup", "Choose a model, an environment, and approvals"),
            "config": ("admin.config", "Show, change, check and explain settings"),
            "model": ("admin.model", "Show, list, switch or test language models"),
            "token": ("groups.people", "Tokens for the API: add, list, revoke"),
            "web": ("groups.people", "The dashboard: log in, sessions, log out"),
            "tools": ("admin.tools", "Tools of the agent, and why others are unavailable"),
            "mcp": ("groups.knowledge", "MCP servers: add, list, review, test, remove, serve"),
            "channels": ("groups.people", "Chats and sinks: list them, send a test message"),
            "hooks": (
                "groups.operations",
                "Programs of yours that events start: list, trust, test, log",
            ),
            "traces": ("groups.operations", "Runs and incidents for OpenTelemetry: show, send"),
            "plugins": ("groups.people", "Plug-ins: what they bring, and whether they work"),
            "doctor": ("admin.doctor", "Check the installation and every file it reads"),
            "status": ("admin.status", "Show what runs, what is open, and the configuration"),
        },
    ),
    (
        "Rules and evidence",
        "hermes policy check -- systemctl restart nginx",
        {
            "policy": ("groups.knowledge", "What the agent may do: check, explain, test, replay"),
            "people": ("groups.people", "Who is who: names, ids on chat platforms, groups"),
            "pairing": (
                "groups.people",
                "Let people talk to Hermes in chats: list, approve, revoke",
            ),
            "audit": ("admin.audit", "Show and verify decisions and actions"),
            "journal": ("admin.storage", "Verify, export, compact or salvage the journal"),
            "store": ("admin.storage", "Show the store, or move it"),
        },
    ),
    (
        "Skills and training",
        "hermes drill run --help    break a service in a box and let the agent fix it",
        {
            "demo": ("drills.demo", "Run a demonstration: no key, no network"),
            "skills": ("groups.knowledge", "Playbooks: list, show, run, lint, review, share"),
            "drill": ("groups.knowledge", "Real outages in a box: run, score, measure"),
            "copy": ("groups.knowledge", "Try commands in a copy of this machine"),
            "batch": (
                "drills.training_data",
                "Many prompts in parallel, saved as training examples",
            ),
            "trajectories": ("drills.training_data", "Runs as training examples"),
            "rl": ("drills.rl", "Episodes for training: over HTTP, or for Atropos"),
        },
    ),
    (
        "This installation",
        "hermes completion --install",
        {
            "backup": ("admin.storage", "Save the home folder in one file"),
            "restore": ("admin.storage", "Restore the home folder from a backup"),
            "completion": ("admin.installation", "Completion for bash, zsh or fish"),
            "version": ("admin.installation", "Show the version and the platform"),
            "update": ("admin.installation", "Install the latest version and migrate settings"),
            "uninstall": ("admin.installation", "Remove Hermes; settings can be kept"),
        },
    ),
)

COMMANDS: CommandTable = {
    name: entry for _, _, table in COMMAND_GROUPS for name, entry in table.items()
}

USAGE_TEMPLATE = """\
Usage: hermes [OPTIONS] [COMMAND] [ARGUMENTS]

An operations agent: it detects outages, finds the cause, fixes it under your rules, verifies
the fix and reports. Without a command it opens a chat; text piped in is a question.
{commands}
Options:
  --resume [RUN]       Continue a conversation; without RUN, the latest
  -c, --continue       Continue the latest conversation
  -q, --query TEXT     Ask one question and end
  -s, --set KEY=VALUE  Set a key for this call only (may be repeated)
  --version            Show the version
  -h, --help           Show this text; see also `hermes COMMAND --help`

Exit codes: 0 fine, 1 failed, 2 wrong usage, 3 settings, 4 model, 5 environment, 6 store,
7 denied, 8 budget spent, 130 interrupted.
"""


def help_text() -> str:
    width = max(map(len, COMMANDS)) + 2
    lines: list[str] = []
    for title, example, table in COMMAND_GROUPS:
        lines += ["", f"{title}:"]
        lines += [f"  {name:<{width}}{line}" for name, (_, line) in table.items()]
        lines.append(f"  example: {example}")
    return USAGE_TEMPLATE.format(commands="\n".join([*lines, ""]))
