"""Which files with secrets a command may not open, although the policy did not see their names.

The policy asks about a secret file that a command names. All others are checked by the supervisor
when they are opened. Only a command whose programs open just the files that their words name, by
the program tables, is not checked: that would cost time and find nothing.
"""

import posixpath
import re
from collections.abc import Callable, Iterator
from functools import cache

from msgspec.structs import replace

from hermes.policy.actions.action_effects import ActionEffects, ActionStep
from hermes.policy.commands import tables
from hermes.policy.commands.effects import word_set
from hermes.policy.programs import resource_access

_UNKNOWN_PART = re.compile(r"[…*?\[]")
_PLAIN_INPUT = re.compile(r"[ \t]*[\w./+:%,-]+(?=[\s;&|)<>]|\Z)|[(&]")
"""What follows the `<` of a redirection whose file is known."""
_CODE_FILES = (
    "*/site-packages/*.py*",
    "*/dist-packages/*.py*",
    "*/node_modules/*.js",
    "/usr/lib/*.py*",
    "/usr/local/lib/*.py*",
)
"""Modules may be called `credentials`."""
_LOGIN_HELPERS = (
    "ssh", "aws", "aws-iam-authenticator", "gke-gcloud-auth-plugin", "gcloud", "kubelogin",
    "git-remote-http", "git-remote-https", "git-credential-store",
)  # fmt: skip
"""Programs by which other programs log in."""
_HELPED_PROGRAMS = word_set("git rsync")
"""Programs that read no credentials themselves."""
_FILE_PRINTERS = word_set(
    "rclone s3cmd gsutil azcopy restic borg b2 s5cmd scp sftp promtool cheat navi"
)
"""Clients of services that also print or copy any file."""
_KEY_FILES = ("/etc/*", "/var/*", "/run/*", "*/.*/*.key", "*/.*/*.pem")
_NO_CREDENTIALS = re.compile(r"\*/\.env|.*_history|/proc/|/dev/")


def refused_reads(effects: ActionEffects) -> tuple[str, ...]:
    """The patterns of secret files, if the command may open files that it does not name."""
    if not effects.command or "secret-read" in effects.effects:
        return ()
    if _has_unknown_input(effects.command) or not all(map(_opens_only_named, effects.steps)):
        return _secret_patterns()
    return ()


def granted_reads(
    effects: ActionEffects, credentials_of: Callable[[ActionStep], frozenset[str]]
) -> tuple[str, ...]:
    """The secret files that programs use themselves, as `program:pattern`.

    A program may start helpers, which get its own credentials as well unless another program could
    use that; keys of the system are for the program itself and for programs that log in.
    """
    unknown = {_program_of(step) for step in effects.steps if "…" in "".join(step.argv[1:])}
    steps = [
        (step, _key_patterns(step, credentials_of(step), named=_program_of(step) not in unknown))
        for step in effects.steps
    ]
    others = [step for step, patterns in steps if step.via or not patterns]
    alone = not _has_unknown_input(effects.command) and all(map(_opens_only_named, others))
    found: dict[str, None] = {}
    for step, patterns in steps:
        program = _program_of(step)
        helped = program in _HELPED_PROGRAMS
        named = (*(() if helped else (program,)), *step.via, *_LOGIN_HELPERS)
        private = _KEY_FILES if credentials_of(step) else ()
        for each in patterns:
            names = ("*",) if alone and not helped and each not in private else named
            found.update(dict.fromkeys(f"{name}:{each}" for name in names))
    return tuple(found)


def mark_remote_searches(effects: ActionEffects) -> ActionEffects:
    """Marks programs that search through files of a host on which nothing refuses to open them."""
    steps = tuple(_mark_search(step) if _searches_host(step) else step for step in effects.steps)
    return effects if steps == effects.steps else replace(effects, steps=steps)


def _mark_search(step: ActionStep) -> ActionStep:
    why = (
        f"secret-read: {step.program} may find secrets on a host that does not refuse to open them"
    )
    return replace(step, effects=step.effects | {"secret-read"}, why=(*step.why, why))


def _searches_host(step: ActionStep) -> bool:
    if not _HOST_WRAPPERS.intersection(step.via) or "secret-read" in step.effects:
        return False
    if step.paths and all(path.startswith(_FOLDERS_WITHOUT_SECRETS) for path in step.paths):
        return False
    program, words = _program_of(step), step.argv[1:]
    if program in _ARCHIVERS:
        return any(map(_CREATING_WORD.match, words))
    entry = tables.find_program(program)
    if entry is None or entry.spec.opens != "named" or entry.spec.args in ("text", "names"):
        return False
    return not entry.opens_only_named(words) or any("…" in word for word in words)


_HOST_WRAPPERS = word_set("ssh autossh dbclient mosh rsh pssh parallel-ssh pdsh clush ansible")
_ARCHIVERS = word_set("tar bsdtar zip cpio pax 7z")
_CREATING_WORD = re.compile(r"-?[A-Za-z]*[cro]|--create|a\Z")
_FOLDERS_WITHOUT_SECRETS = ("/var/log/", "/proc/", "/sys/", "/usr/")


def _program_of(step: ActionStep) -> str:
    return posixpath.basename(step.program).partition(" ")[0]


def _has_unknown_input(command: str) -> bool:
    """Whether a redirection, also of a whole loop, may open a file that is not known."""
    return any(not _PLAIN_INPUT.match(rest) for rest in re.split(r"(?<!<)<(?!<)", command)[1:])


@cache
def _secret_patterns() -> tuple[str, ...]:
    """Without those for all settings of root, which programs read for themselves."""
    listed = tables.path_lists()
    secrets = [each for each in listed["secrets"] if each[0] in "/*" and "[" not in each]
    return (*secrets, *(f"!{each}" for each in (*listed["public"], *_CODE_FILES)))


@cache
def _credential_patterns() -> tuple[str, ...]:
    """Secret files in the settings of users and of the system, not those of projects."""
    secrets = tables.path_lists()["secrets"]
    settings = (each for each in secrets if each.startswith("*/.") or each == "*/rclone.conf")
    return (*(each for each in settings if not _NO_CREDENTIALS.match(each)), *_KEY_FILES)


def _key_patterns(step: ActionStep, credentials: frozenset[str], *, named: bool) -> tuple[str, ...]:
    """The secret files that the program, or one that runs it, logs in with."""
    found = [_whole_folder(file.replace("~", "*")) for file in credentials]
    for program in (_program_of(step), *step.via):
        entry = tables.find_program(program)
        found += entry.spec.keys.split() if entry else []
        if program in resource_access.PRIVILEGE_PROGRAMS:
            found += tables.path_lists()["hidden_accounts"]
        if _logs_in(program):
            found += _KEY_FILES if credentials else _credential_patterns()
    if found and named:
        found += [path for path in step.paths if not _UNKNOWN_PART.search(path)]
    return tuple(dict.fromkeys(each for each in found if each != "named"))


def _whole_folder(pattern: str) -> str:
    """Keys beside `.ssh/id_*` may have any name."""
    folder = pattern.rpartition("/")[0]
    return f"{folder}/*" if "/" in folder else pattern


def _logs_in(program: str) -> bool:
    return program not in _FILE_PRINTERS and (
        bool(resource_access.access_of(program).peer)
        or program in resource_access.PRIVILEGE_PROGRAMS
        or program in resource_access.LISTENING_PROGRAMS
        or program in resource_access.REMOTE_WRAPPERS
    )


def _opens_only_named(step: ActionStep) -> bool:
    return all(_entries_open_only_named(step))


def _entries_open_only_named(step: ActionStep) -> Iterator[bool]:
    for wrapper in step.via:
        entry = tables.find_program(wrapper)
        yield entry is not None and entry.spec.opens == "nothing"
    if not step.program:  # a redirection, or an assignment
        yield not _reads_unknown_path(step)
        return
    entry = tables.find_program(_program_of(step))
    yield entry is not None and entry.opens_only_named(step.argv[1:])
    if entry is not None and entry.spec.args not in ("text", "names"):
        yield entry.spec.opens == "nothing" or not _reads_unknown_path(step)


def _reads_unknown_path(step: ActionStep) -> bool:
    return any(_UNKNOWN_PART.search(path) for path in step.paths if path not in step.changes)
