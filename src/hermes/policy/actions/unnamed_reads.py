"""Which files with secrets a command may not open, although the policy did not see their names.

The policy asks about a secret file that a command names. All others are checked by the supervisor
when they are opened. Only a command whose programs open just the files that their words name, by
the program tables, is not checked: that would cost time and find nothing.
"""

import posixpath
import re
from collections.abc import Callable, Iterator
from functools import cache

from hermes.policy.actions.action_effects import ActionEffects, ActionStep
from hermes.policy.commands import tables
from hermes.policy.commands.effects import word_set
from hermes.policy.programs import resource_access

_UNKNOWN_PART = re.compile(r"[…*?\[]")
_PLAIN_INPUT = re.compile(r"[ \t]*[\w./+:%,-]+(?=[\s;&|)<>]|\Z)|[(&]")
"""What follows the `<` of a redirection whose file is known."""
_PROCESS_FILE = re.compile(r"/proc/(?!self\b|thread-self\b|sys\b|net\b)[^/a-z]")
_CODE_FILES = (
    *(
        f"{folder}/*.{end}"
        for folder in ("*/site-packages", "*/dist-packages", "/usr/lib", "/usr/local/lib")
        for end in ("py", "pyc", "pyi")
    ),
    "*/node_modules/*.js",
)
"""Modules may be called `credentials`."""
_KEY_FILES = ("/etc/*", "/var/*", "/run/*", "*/.*/*.key", "*/.*/*.pem")
_DEVICE_FILES = "/dev/*"
_LOGIN_HELPERS: dict[str, tuple[str, ...]] = {
    "ssh": ("*/.ssh/*", *_KEY_FILES),
    **dict.fromkeys(("aws", "aws-iam-authenticator"), ("*/.aws/*",)),
    **dict.fromkeys(("gcloud", "gke-gcloud-auth-plugin"), ("*/.config/gcloud/*",)),
    "kubelogin": ("*/.kube/*", "*/.azure/*"),
    **dict.fromkeys(("git-remote-http", "git-remote-https"), ("*/.netrc",)),
    "git-credential-store": ("*/.git-credentials",),
}
"""Programs by which other programs log in, and the credentials that they read themselves."""
_HELPED_PROGRAMS = word_set("git rsync")
"""Programs that read no credentials themselves."""
_PLUGINS = {"docker": ("docker-compose", "docker-buildx")}
"""Programs that a client hands its words to."""
_FILE_PRINTERS = word_set(
    "rclone s3cmd gsutil azcopy restic borg b2 s5cmd scp sftp promtool cheat navi"
)
"""Clients of services that also print or copy any file."""


def refused_reads(effects: ActionEffects) -> tuple[str, ...]:
    """The patterns of secret files, if the command may open files that it does not name."""
    if not effects.command or "secret-read" in effects.effects:
        return ()
    if _has_unknown_input(effects.command) or not all(map(_opens_only_named, effects.steps)):
        return secret_patterns()
    return ()


def granted_reads(
    effects: ActionEffects, credentials_of: Callable[[ActionStep], frozenset[str]]
) -> tuple[str, ...]:
    """The secret files that programs use themselves, as `program:pattern`.

    A program may start helpers, which get its own credentials as well unless another program could
    use that; keys of the system, and files that its words name, are for the program itself and for
    ssh. A helper that logs in for others gets no credentials but its own.
    """
    unknown = {_program_of(step) for step in effects.steps if _has_unknown_words(step)}
    steps = [
        (step, _key_patterns(step, credentials_of(step), named=_program_of(step) not in unknown))
        for step in effects.steps
    ]
    others = [step for step, patterns in steps if step.via or not patterns]
    alone = not _has_unknown_input(effects.command) and all(map(_opens_only_named, others))
    found: dict[str, None] = {}
    for step, patterns in steps:
        helped = _program_of(step) in _HELPED_PROGRAMS
        local = [name for name in local_programs(step) if name not in _HELPED_PROGRAMS]
        builds = resource_access.builds_manifests(_program_of(step), step.argv[1:])
        for each in patterns:
            helpers = [name for name, own in _LOGIN_HELPERS.items() if each in own]
            if each in step.paths:
                helpers += _PLUGINS.get(_program_of(step), ())
                helpers += ["ssh"] if "*/.ssh/*" in patterns else []
            own = (*_KEY_FILES, _DEVICE_FILES, *step.paths)
            shared = alone and not helped and each not in own
            names = ("*",) if shared else (*local, *helpers)
            places = _in_homes(each, effects.home) if builds else (each,)
            found.update(dict.fromkeys(f"{name}:{place}" for place in places for name in names))
    return tuple(found)


def _has_unknown_words(step: ActionStep) -> bool:
    """Return whether words of run time, or commands in its input, may name the files of another
    step."""
    entry = tables.find_program(_program_of(step))
    words = step.argv[1:]
    if entry is not None and entry.spec.keys == "named":
        return not words or any(map(_UNKNOWN_PART.search, (*words, *step.paths)))
    return "…" in "".join(words) or any(map(_UNKNOWN_PART.search, step.paths))


def _in_homes(pattern: str, home: str) -> tuple[str, ...]:
    """Credentials of the user and of root, and none of a folder below."""
    if not pattern.startswith("*/."):
        return (pattern,)
    homes = (home, "/root") if home.startswith("/") else ("/root",)
    return tuple(f"{each}/{pattern[2:]}" for each in homes if "*" not in pattern[2:-1])


def local_programs(step: ActionStep) -> tuple[str, ...]:
    """The programs of the step that run on this machine."""
    for at, wrapper in enumerate(step.via, start=1):
        if wrapper in resource_access.REMOTE_WRAPPERS:
            return step.via[:at]
    return (*step.via, _program_of(step))


def _program_of(step: ActionStep) -> str:
    return posixpath.basename(step.program).partition(" ")[0]


def _has_unknown_input(command: str) -> bool:
    """Return whether a redirection, also of a whole loop, may open a file that is not known."""
    return any(not _PLAIN_INPUT.match(rest) for rest in re.split(r"(?<!<)<(?!<)", command)[1:])


@cache
def secret_patterns() -> tuple[str, ...]:
    """Without those for all settings of root, which programs read for themselves."""
    listed = tables.path_lists()
    secrets = [each for each in listed["secrets"] if each[0] in "/*" and "[" not in each]
    public = (f"!{each}" for each in (*listed["public"], *_CODE_FILES))
    private = (f"!!{each}" for each in listed["private"])
    return (*secrets, *listed["devices"], *public, *private)


def _key_patterns(step: ActionStep, credentials: frozenset[str], *, named: bool) -> tuple[str, ...]:
    """The secret files that the program, or one that runs it, logs in with."""
    found = [_whole_folder(file.replace("~", "*")) for file in credentials]
    if resource_access.prints_local_files(_program_of(step), step.argv[1:]):
        return ()
    for program in (_program_of(step), *step.via):
        entry = tables.find_program(program)
        found += entry.spec.keys.split() if entry else []
        if program in resource_access.PRIVILEGE_PROGRAMS:
            found += tables.path_lists()["hidden_accounts"]
        if _logs_in(program):
            found += (*resource_access.own_secret_files(program), *_KEY_FILES)
    if found and named:
        found += [path for path in step.paths if not _UNKNOWN_PART.search(path)]
    if _program_of(step) in resource_access.DEVICE_READERS:
        found.append(_DEVICE_FILES)
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


def names_process_file(step: ActionStep) -> bool:
    """Return whether a word names a file of /proc that belongs to a process."""
    # A word such as /proc/1/cwd is among the paths as the folder that it leads to.
    return any(_PROCESS_FILE.match(path) for path in (*step.paths, *step.argv[1:]))


def _opens_only_named(step: ActionStep) -> bool:
    """Not by a link of a process, which leads anywhere."""
    return not names_process_file(step) and all(_entries_open_only_named(step))


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
