"""Every command as data: enough to answer `hermes --help` without loading any of them.

To add a command: a line here, and a module in which a click command has the same name.
"""

COMMANDS: dict[str, tuple[str, str]] = {
    "chat": ("hermes.cli.chat", "Talk to the agent; -q asks one question and ends"),
    "sessions": (
        "hermes.cli.sessions",
        "List, show, search, import, export or delete conversations",
    ),
    "recall": ("hermes.cli.recall", "What earlier sessions have to say to a question"),
    "memory": ("hermes.cli.memory", "What is known: list, show, add, forget, audit, export"),
    "skills": ("hermes.cli.skills", "What it can do by itself: list, show, run, lint, roll back"),
    "model": ("hermes.cli.model", "Show, list, switch or test language models"),
    "tools": ("hermes.cli.tools", "What the agent can do here, and why not the rest"),
    "policy": ("hermes.cli.policy", "What the agent may do: check, explain, test, replay rules"),
    "audit": ("hermes.cli.audit", "What was decided and done, and proof that nobody rewrote it"),
    "approvals": ("hermes.cli.approvals", "Answer what waits for a person; see what was granted"),
    "watch": ("hermes.cli.watch", "Be on call: notice, mend under rules, prove, report"),
    "incident": ("hermes.cli.incident", "What went wrong: list, show, report, open, close, count"),
    "health": ("hermes.cli.health", "Is anything wrong right now? Every probe asked once"),
    "maintenance": ("hermes.cli.maintenance", "Look away for a while: add, list or end a window"),
    "drill": ("hermes.cli.drill", "Real incidents in a box: run, score, measure, prove"),
    "batch": ("hermes.cli.batch", "Many prompts side by side, kept as examples to train on"),
    "trajectories": ("hermes.cli.trajectories", "Runs as examples to train on"),
    "rl": ("hermes.cli.rl", "Incidents for those who train: over HTTP, or for Atropos"),
    "setup": ("hermes.cli.setup", "Choose a provider, a model and a place to work"),
    "config": ("hermes.cli.config", "See, change, check and explain settings"),
    "status": ("hermes.cli.status", "What is set up, in one look"),
    "demo": ("hermes.cli.demo", "See it work: no key, no network"),
    "doctor": ("hermes.cli.doctor", "Find what is wrong, and how to mend it"),
    "journal": ("hermes.cli.journal", "Verify, export, compact or rescue the record of it all"),
    "store": ("hermes.cli.store", "Where everything is kept: look at it, move it elsewhere"),
    "completion": ("hermes.cli.completion", "Completion for bash, zsh or fish"),
    "version": ("hermes.cli.version", "Version, and what it runs on"),
    "update": ("hermes.cli.update", "How to get the latest version, and new settings"),
    "uninstall": ("hermes.cli.uninstall", "Take Hermes off this machine; may keep settings"),
}

USAGE = """\
Usage: hermes [OPTIONS] [COMMAND] [ARGUMENTS]

An agent in your terminal. Without a command it opens a chat; text piped in is a question.

Options:
  --resume [RUN]       Go on with a conversation; without RUN, the latest
  -c, --continue       Go on with the latest conversation
  -q, --query TEXT     Ask one question and end
  -s, --set KEY=VALUE  Set a key for this call only (may be repeated)
  --version            Show the version
  -h, --help           Show this text; `hermes COMMAND --help` says more

Commands:
{commands}

Examples:
  hermes                                  open a chat
  hermes chat -q "what fills my disk?"    one question
  git diff | hermes chat -q "review this" text piped in is added to the question
  hermes doctor                           is everything in order?

Exit codes: 0 fine, 1 failed, 2 wrong usage, 3 settings, 4 model, 5 place of work, 6 store,
7 denied, 8 budget spent, 130 interrupted.
"""


def help_text() -> str:
    width = max(map(len, COMMANDS)) + 2
    lines = [f"  {name:<{width}}{line}" for name, (_, line) in COMMANDS.items()]
    return USAGE.format(commands="\n".join(lines))
