"""Command groups about people: who they are, the chats they use, tokens and sessions of the web."""

from hermes.cli.lazy import cli_group

PEOPLE_COMMANDS = {
    "list": ("admin.people:list_", "All people with their ids and groups"),
    "add": ("admin.people:add", "Add a person, or more ids of one"),
    "remove": ("admin.people:remove", "Remove a person that a command added"),
}


@cli_group(
    PEOPLE_COMMANDS,
    """
hermes people                                     all people
hermes people add alice unix:alice telegram:123456789 --group oncall
hermes people remove alice
""",
    default="list",
)
def people() -> None:
    """Who is who on the terminal, in chats and on the web. Without a command: list.

    One human has one name, so that "not the requester" and "two different people" hold wherever
    they answer. The section `people` of config.yaml wins over these commands.

    Exit codes: 0 fine, 1 there is no such person, 2 wrong usage, 3 settings, 7 denied.
    """


PAIRING_COMMANDS = {
    "list": ("admin.people:pairings", "Who waits with a code, and who was let in"),
    "approve": ("admin.people:approve", "Let a person in by their code"),
    "revoke": ("admin.people:revoke", "Withdraw the access of a person"),
}


@cli_group(
    PAIRING_COMMANDS,
    """
hermes pairing                                    who waits, and who was let in
hermes pairing approve telegram 7KQ2M9XA --as alice
hermes pairing revoke telegram 123456789
""",
    default="list",
)
def pairing() -> None:
    """Who may talk to Hermes in chats. Without a command: list.

    An unknown person who writes to Hermes gets a code, valid for an hour; somebody with a shell on
    this machine confirms it. After five wrong codes a channel takes none for an hour.

    Exit codes: 0 fine, 1 there is no such code or pairing, 2 wrong usage, 7 denied.
    """


CHANNEL_COMMANDS = {
    "list": ("admin.channels:list_", "All chats and sinks, whether they work, and what waits"),
    "test": ("admin.channels:test", "Send a test message"),
}


@cli_group(
    CHANNEL_COMMANDS,
    """
hermes channels                                   all chats and sinks
hermes channels list --json
hermes channels test telegram                     a message to its home chat
""",
    default="list",
)
def channels() -> None:
    """Chats and sinks: which are configured, which work, what waits. Without a command: list.

    A chat is configured by its token in the file .env of the home folder (TELEGRAM_BOT_TOKEN), and
    by the id of the chat for notifications (TELEGRAM_HOME_CHANNEL).

    Exit codes: 0 fine, 1 a message could not be sent, 2 wrong usage, 3 settings.
    """


TOKEN_COMMANDS = {
    "add": ("admin.tokens:add", "Create one; it is shown once"),
    "list": ("admin.tokens:list_", "Who has one, for what, until when"),
    "revoke": ("admin.tokens:revoke", "Make one invalid at once"),
}


@cli_group(
    TOKEN_COMMANDS,
    """
hermes token add --as alice --right read --right chat
hermes token list
hermes token revoke 4f2a1c
""",
    default="list",
)
def token() -> None:
    """Tokens for the API on the web port. Without a command: list.

    Exit codes: 0 fine, 1 there is no such token, 2 wrong usage, 6 the store failed.
    """


WEB_COMMANDS = {
    "login": ("admin.web_sessions:login", "Print a link that opens the dashboard once"),
    "sessions": ("admin.web_sessions:sessions", "Who is logged in, since when"),
    "logout": ("admin.web_sessions:logout", "End a session, or all of a person"),
}


@cli_group(
    WEB_COMMANDS,
    """
hermes web login                                  a link for you
hermes web login --as alice
hermes web sessions
hermes web logout 4f2a1c
""",
    default="sessions",
)
def web() -> None:
    """The dashboard in a browser, which `hermes up` serves. Without a command: sessions.

    Exit codes: 0 fine, 1 there is no such session, 2 wrong usage, 3 settings, 6 the store failed.
    """


GATEWAY_COMMANDS = {
    "run": ("monitoring.gateway:run", "Serve the configured channels until it is stopped"),
    "status": ("monitoring.gateway:status", "The channels, and who receives from each"),
    "install": ("monitoring.service:install", "Keep it running: `hermes service install`"),
}


@cli_group(
    GATEWAY_COMMANDS,
    """
hermes gateway run                     until Ctrl-C
hermes gateway status
""",
    default="status",
)
def gateway() -> None:
    """Conversations with people through chat channels. Without a command: status.

    `hermes channels list` shows what a channel needs. Nobody is heard before somebody with a shell
    lets them in: `hermes people add NAME telegram:ID`.

    Exit codes: 0 fine, 2 wrong usage, 3 no channel can be used.
    """


PLUGIN_COMMANDS = {
    "list": ("admin.plugins:list_", "Packages and files, and what each brings"),
    "show": ("admin.plugins:show", "One of them: parts, needs, whether it loads"),
    "doctor": ("admin.plugins:doctor", "Load all, and say what is wrong"),
}


@cli_group(
    PLUGIN_COMMANDS,
    """
hermes plugins list
hermes plugins show hermes-example
hermes plugins doctor
""",
    default="list",
)
def plugins() -> None:
    """Plug-ins of other authors. Without a command: list.

    They are entry points of installed packages in the groups hermes.tools, hermes.models and so
    on, and files of the home folder under plugins/. One that is broken is absent, with its reason.
    """
