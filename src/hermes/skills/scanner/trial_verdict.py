"""Judges what a script did during its trial, with canary secrets and documents."""

import base64
import re
from collections.abc import Mapping

from hermes.core.messages import Value
from hermes.skills.scanner.action import find_host, is_remote_host, mentions_path
from hermes.skills.scanner.patterns import load_pattern
from hermes.skills.scanner.purpose import DeclaredPurpose

CANARY_SECRET_FILES = (
    ".ssh/id_rsa", ".ssh/id_ed25519", ".aws/credentials", ".netrc", ".git-credentials", ".npmrc",
    ".kube/config", ".bash_history", ".config/gh/hosts.yml", ".docker/config.json", ".pypirc",
    ".gnupg/secring.gpg", ".config/gcloud/credentials.db", ".mozilla/firefox/a.default/logins.json",
    ".config/google-chrome/Default/Login Data", ".hermes/journal.db", ".vault-token",
    ".config/solana/id.json", ".password-store/bank.gpg", "projects/app/.env",
)  # fmt: skip
"""Files of a home that a harmless script does not open unasked."""
CANARY_DOCUMENT_FILES = (
    "Documents/letter.txt", "Pictures/cat.jpg", "projects/app/main.py", "backups/db.dump",
    "Documents/customers.csv", "Documents/budget.xlsx", "Documents/contract.docx",
    ".bashrc", ".zshrc", ".profile", ".gitconfig",
    ".hermes/MEMORY.md", ".hermes/skills/other/SKILL.md",
    ".config/pip/pip.conf", "projects/app/.git/config",
)  # fmt: skip
"""Files that may be read, but must not be changed."""
_CANARY_VARIABLES = (
    "AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "OPENAI_API_KEY", "DATABASE_PASSWORD", "NPM_TOKEN",
    "ANTHROPIC_API_KEY", "SLACK_BOT_TOKEN",
)  # fmt: skip


class CanarySecret(Value, frozen=True):
    value: str

    def variables(self) -> Mapping[str, str]:
        return {name: f"{self.value}-{number}" for number, name in enumerate(_CANARY_VARIABLES)}

    def variable_in(self, text: str) -> str:
        """The variable whose value occurs in the text, when no other canary value does."""
        found = {each[1] for each in re.finditer(rf"{self.value}-(\d)", text)}
        alone = len(found) == 1 and len(re.findall(self.value, text)) == 1
        return _CANARY_VARIABLES[int(found.pop())] if alone else ""

    @property
    def requested_value(self) -> str:
        """For a variable that a script requests from the user."""
        return f"{self.value}-w"

    def is_in(self, text: str) -> bool:
        """Plain, reversed, in hexadecimal or in base64, at each of its three alignments."""
        data = self.value.encode()
        forms = [self.value, self.value[::-1], data.hex()]
        for before in range(3):
            coded = base64.b64encode(b"." * before + data).decode()
            forms.append(coded[4 * bool(before) + 4 : -4])
        return any(form in text for form in forms)


_PERSISTENCE_COMMAND = re.compile(r"(?:crontab|at|launchctl)\s(?!-l\b)|systemctl\b.*\benable\b")
_LOGIN_COMMAND = re.compile(r"(?:ssh|scp|sftp|rsync|ssh-add|git)\b")
_KEY_OPTION = re.compile(r"-i[ =]?\S+")
"""A key used for a login is allowed."""
_ROUTINE_PATH = re.compile(
    r"/(?:usr|lib|proc|sys|dev|etc/(?:ld|localtime|nsswitch|hosts|resolv|ssl))\b|\.pyc?\b"
)
_HOME_PATH = re.compile(r"/hermes-sandbox[\w.-]*/home/|(?:^|[\s'\"(=])~/")
_SENDING_OPTION = re.compile(r"\s-(?:d|F|T)\b|--data|--form|--upload|--post|POST|PUT|<<< \S")
_COMMAND_HOST = re.compile(
    r"(?:https?|ftps?|tcp|udp|rsync|ldap|wss?)://(?:[^/@\s]*@)?([\w.-]+)|"
    r"(?<![\w./-])((?:\d{1,3}\.){3}\d{1,3})(?![\w.])|"
    r"\b(?:nc|ncat|netcat|telnet|ssh|scp|sftp|socat|ping|dig|host|nslookup|drill|getent)\b.*?[\s@:.]"
    r"([\w-]+\.(?:[\w-]+\.)*[a-z]{2,})\b|-connect\s+([\w.-]+)"
)
_LOCAL_TARGET = re.compile(r"sample|127\.|localhost|::1|0\.0\.0\.0|/|$")


class TrialVerdict(Value, frozen=True):
    cause: str = ""
    blocks: bool = True


def judge_trial_event(
    what: str, text: str, canary: CanarySecret, purpose: DeclaredPurpose
) -> TrialVerdict:
    if what == "gone":
        return TrialVerdict(text)
    if what == "ran":
        return TrialVerdict("it ran fetched code without inspection")
    if what in ("program", "connect", "command", "sent", "called") and canary.is_in(text):
        if _is_sent_to_own_service(text, canary, purpose):
            return TrialVerdict()
        return TrialVerdict(f"it sent a secret out: {text[:80]!r}")
    if what in ("open", "trace", "command", "program") and (reached := _find_secret_access(text)):
        # A path that the text mentions may be read; sending it was judged before.
        declared = f"~/{reached}" in purpose.all_text or mentions_path(reached, purpose)
        cause = "" if declared else f"it accessed ~/{reached}"
        return TrialVerdict(cause, blocks=not is_forensic_evidence(reached, purpose))
    if what == "changed" and _HOME_PATH.search(text) and not _is_own_file(text, purpose):
        return TrialVerdict(f"it changed the home of the user: {text[:80]!r}")
    if what in ("connect", "called", "sent"):
        return _judge_connection(what, text, purpose)
    if what == "program":
        return _judge_program(text, purpose)
    return TrialVerdict()


def is_forensic_evidence(path: str, purpose: DeclaredPurpose) -> bool:
    """A skill about security incidents may read shell histories, but not send them."""
    return path.endswith("_history") and purpose.declares("teaches", prominently=True)


def _is_own_file(text: str, purpose: DeclaredPurpose) -> bool:
    """Files in which programs store their own data, or that the text names."""
    own_data = re.search(
        r"/home/(\.(?:cache|local/(?:share|state))/|\.config/[\w-]+/[\w.-]+)", text
    )
    name = re.search(r"/home/([^\s'\",)]+)", text)
    return bool(own_data) or (name is not None and f"~/{name[1]}" in purpose.all_text)


def _is_sent_to_own_service(text: str, canary: CanarySecret, purpose: DeclaredPurpose) -> bool:
    """The key of a service is sent to that service, which the text names."""
    name = canary.variable_in(text).casefold()
    host = find_host(text) or re.sub(r"sample$", "", text.split(" ")[0])
    local = name == "" and host.startswith("127.0.0.1")
    if not host or not (local or purpose.names_host(host)):
        return False
    if not name:
        return text.count(canary.value) == text.count(canary.requested_value) > 0
    return name in purpose.all_text or any(
        word in host for word in name.split("_") if len(word) > 3
    )


def _find_secret_access(text: str) -> str:
    if _ROUTINE_PATH.match(text):
        return ""
    visible = _KEY_OPTION.sub(" ", text) if _LOGIN_COMMAND.match(text) else text
    return next((path for path in CANARY_SECRET_FILES if f"/{path}" in visible), "")


def _judge_connection(what: str, text: str, purpose: DeclaredPurpose) -> TrialVerdict:
    first = re.search(r"\(\(('[^']*'|\"[^\"]*\")", text) if what == "called" else None
    text = first[1] if first else text
    host = find_host(text) or (re.sub(r"[^\w.:-]+", " ", text).split() or [""])[0]
    if what == "called" and not find_host(text):
        return TrialVerdict()
    host = re.sub(r"sample$", "", host)
    named = bool(_LOCAL_TARGET.match(host)) or purpose.names_host(host)
    return TrialVerdict(f"it called {text[:60]}", blocks=not named)


def _judge_program(text: str, purpose: DeclaredPurpose) -> TrialVerdict:
    if _PERSISTENCE_COMMAND.match(text) and not purpose.declares("stays", prominently=True):
        return TrialVerdict(f"it would stay installed: {text[:80]!r}")
    for host in (
        next(filter(None, found.groups())).casefold() for found in _COMMAND_HOST.finditer(text)
    ):
        if not is_remote_host(host) or purpose.names_host(host):
            continue
        if _SENDING_OPTION.search(text) or host.replace(".", "").isdigit():
            return TrialVerdict(f"it sent something to {host!r}, which its text does not name")
        usual = load_pattern("paths_and_hosts", "public").fullmatch(host)
        declared = bool(usual) or purpose.declares("network", prominently=True)
        return TrialVerdict(
            f"it called {host!r}, which its text does not name", blocks=not declared
        )
    return TrialVerdict()
