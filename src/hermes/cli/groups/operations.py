"""Command groups of a host that is watched: incidents, states, approvals, jobs, hooks, traces."""

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
