"""Configuration files that an argument chooses: they can name programs, servers and keys.

The user's own settings and those of the system are trusted. A file that the agent may have written,
or that is only known at run time, is not.
"""

import re
from itertools import pairwise
from urllib.parse import unquote

from hermes.policy.commands.calls import ProgramCall
from hermes.policy.commands.effects import word_set
from hermes.policy.commands.placeholders import (
    LIVE_GLOB,
    display_text,
    has_untrusted_text,
    literal_text,
)
from hermes.policy.commands.server_settings import is_harmless_connection
from hermes.policy.commands.tables import OptionGrammar, find_program, parse_arguments
from hermes.policy.programs import resource_access
from hermes.policy.programs.client_commands import PSQL_CLIENTS

_CONFIGURATION_OPTION = re.compile(
    r"--?(?:kubeconfig|kuberc|defaults-file|defaults-extra-file|userconfig|globalconfig|flags-file"
    r"|registry-config|repository-config|command-config|saltfile|(?:mycli|pgcli|iredis)rc)(?:=|\Z)"
)
_SHORT_OPTIONS = {"supervisorctl": re.compile(r"-c(.*)|--configuration(?:=(.*))?\Z")}
"""Of programs whose configuration names code: plug-ins of supervisorctl are loaded as Python."""
_LIBPQ_CLIENTS = PSQL_CLIENTS | word_set("pg_isready pg_activity pg_top pg_dump pg_dumpall repmgr")
_SYSTEM_TREE_OPTION = re.compile(r"--(?:roo?t?|ima?g?e?)(?:=|\Z)")
"""Options of systemd's programs that take all settings from another tree or image."""
_CONNECTION_FILE = re.compile(r"(?:^|[\s?&])servicefile\s*=\s*['\"]?([^\s&'\"]*)")
_OTHER_ADDRESS = re.compile(r"(?:^|[\s?&'])(hostaddr|passfile)\s*=")


def mark_chosen_configuration(call: ProgramCall) -> None:
    """Marks a call whose words choose a configuration that is not the user's own."""
    access = resource_access.access_of(call.program)
    if not access.peer or access is resource_access.REMOTE_HOST_ACCESS:
        return
    words = call.argv[1 : call.argv.index("--") if "--" in call.argv else None]
    for word, following in pairwise((*words, "")):
        if _CONFIGURATION_OPTION.match(word) or (
            access is resource_access.SYSTEMD_ACCESS and _SYSTEM_TREE_OPTION.match(word)
        ):
            name, equals, value = word.partition("=")
            _check_file(call, name, value if equals else following)
        elif (short := _SHORT_OPTIONS.get(call.program)) and (found := short.match(word)):
            _check_file(call, word[:2], found[1] or found[2] or following)
        elif call.program in _LIBPQ_CLIENTS:
            for found in _CONNECTION_FILE.finditer(literal_text(word)):
                _check_file(call, "connection string", found[1])
    if call.program in _LIBPQ_CLIENTS:
        _check_connections(call)


def _check_connections(call: ProgramCall) -> None:
    """The name of a database may be a connection string, with settings for the server."""
    entry = find_program(call.program)
    found = parse_arguments(call.argv[1:], entry.grammar if entry else OptionGrammar())
    for text in (*found.words, *found.values("-d", "--dbname", "--maintenance-db", "--url")):
        if setting := _OTHER_ADDRESS.search(unquote(literal_text(text))):
            call.mark(
                "network-out",
                f"{call.program} {setting[1]} in a connection string: a password that is"
                " stored for another server would be sent",
            )
        if not is_harmless_connection(text):
            call.dynamic(
                f"{call.program} {display_text(text)} sets parameters of the server that are not"
                " known to be harmless: some load code into it"
            )


def _check_file(call: ProgramCall, where: str, value: str) -> None:
    trusted = call.analyst.classifier.is_trusted_configuration(call.path(value))
    if has_untrusted_text(value) or LIVE_GLOB.search(value) or not trusted:
        call.dynamic(
            f"{call.program} {display_text(where)} trusts {display_text(value)}, which the agent"
            " may have written: it can name programs and servers"
        )
