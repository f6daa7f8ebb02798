"""Analyses a shell command: finds the programs it would run and their effects."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import lru_cache

from hermes.policy.commands import syntax, tables
from hermes.policy.commands.calls import ProgramCall, TooManyCommands, program_name
from hermes.policy.commands.effects import (
    ALWAYS_DENIED_EFFECTS,
    READING_EFFECTS,
    CommandAnalysis,
    CommandEffect,
    CommandTarget,
    PathLookup,
    SimpleCommand,
    word_set,
)
from hermes.policy.commands.paths import FileAnswers, PathClassifier
from hermes.policy.commands.placeholders import (
    ANY_WORD,
    SYSTEM_NAME,
    UNKNOWN_TEXT,
    display_text,
    has_untrusted_text,
    is_fully_known,
    shell_source,
    starts_unknown,
)
from hermes.policy.commands.scope import ShellScope
from hermes.policy.commands.script import ShellScript
from hermes.policy.commands.syntax import Node, ShellSyntaxError
from hermes.policy.commands.tables import ProgramEntry
from hermes.policy.programs import (
    archives,
    connections,
    containers,
    databases,
    disk_use,
    files,
    git,
    interpreters,
    network,
    patches,
    remote_hosts,
    shell_builtins,
    system,
    text_filters,
    wrappers,
)  # fmt: skip
from hermes.policy.programs.configuration import mark_chosen_configuration
from hermes.policy.programs.connection_words import mark_connection_words
from hermes.policy.programs.file_name_words import mark_file_name_words, mark_words_before_command
from hermes.policy.programs.remote_commands import mark_remote_command
from hermes.policy.programs.table_effects import apply_table

_PRIVATE_FOLDERS = ("/root", "/home", "~")


def mark_privileged_read(call: ProgramCall) -> None:
    """A harmless read with privileges is still a read: `sudo journalctl`, but not `sudo cat $X`."""
    if not call.borrowed:
        return
    reads_only = frozenset(call.effects) <= READING_EFFECTS and call.peeled is None and call.guarded
    hidden = any(has_untrusted_text(word) for word in call.argv)
    if reads_only and not hidden and not any(_is_private(one, call) for one in call.contents):
        call.mark("read-as-root", call.borrowed)
    else:
        call.mark("privilege", call.borrowed)


def _is_private(path: str, call: ProgramCall) -> bool:
    if UNKNOWN_TEXT.search(path) or not path.startswith("/"):
        return True
    words = {word for word in call.argv if word.startswith("/")}
    relative = not any(path.startswith(word.rstrip("/")) for word in words)
    return relative or path.startswith(_PRIVATE_FOLDERS)


ProgramHandler = Callable[[ProgramCall, ProgramEntry], str]

PROGRAM_HANDLERS: dict[str, ProgramHandler] = {
    "ad-hoc": remote_hosts.ansible,
    "allocate": files.fallocate,
    "alias": shell_builtins.alias,
    "applet": wrappers.busybox,
    "archive": archives.tar,
    "as-user": wrappers.sudo,
    "awk": text_filters.awk,
    "builtin": shell_builtins.builtin,
    "calculator": interpreters.dc,
    "cd": shell_builtins.change_folder,
    "client": databases.sql_client,
    "clock": system.date,
    "compare": shell_builtins.test_expression,
    "connection": connections.netcat,
    "copy": files.copy,
    "curl": network.curl,
    "dd": files.dd,
    "docker": containers.docker,
    "echo": shell_builtins.echo,
    "endpoint": network.aws,
    "env": wrappers.env,
    "eval": shell_builtins.eval_words,
    "exec": shell_builtins.replace_shell,
    "export": shell_builtins.export,
    "fd": files.fd,
    "find": files.find,
    "git": git.git,
    "github": git.github,
    "hostname": system.hostname,
    "http": network.httpie,
    "init": system.init,
    "interface": system.network_interface,
    "mount": system.mount,
    "ip": system.ip,
    "items": wrappers.xargs,
    "jq": interpreters.json_filter,
    "kubectl": containers.kubectl,
    "let": shell_builtins.let,
    "link": files.link,
    "linked": wrappers.ldd,
    "loader": wrappers.loader,
    "locked": wrappers.flock,
    "lookup": network.name_lookup,
    "mongo": databases.mongo,
    "move": files.move,
    "names": network.getent,
    "namespaces": wrappers.nsenter,
    "next-option": shell_builtins.next_option,
    "one-liner": interpreters.one_liner,
    "parallel": wrappers.parallel,
    "password": remote_hosts.sshpass,
    "printenv": shell_builtins.print_environment,
    "printf": shell_builtins.printf,
    "processes": system.ps,
    "python": interpreters.python,
    "patch": patches.patch,
    "pieces": files.split_file,
    "read": shell_builtins.read_variable,
    "read-array": shell_builtins.read_array,
    "redis": databases.redis,
    "relay": connections.socat,
    "remote": remote_hosts.ssh,
    "remove": files.remove,
    "resolver": network.resolvectl,
    "rights": files.change_permissions,
    "scheduled": wrappers.at_job,
    "scratch": files.mktemp,
    "sed": text_filters.sed,
    "tr": text_filters.tr,
    "secure-client": connections.openssl,
    "service": system.service,
    "service-tool": system.service_tool,
    "set": shell_builtins.set_options,
    "shell": wrappers.shell,
    "shell-options": shell_builtins.shell_options,
    "shift": shell_builtins.shift,
    "signal": system.kill,
    "source": shell_builtins.source,
    "sqlite": databases.sqlite,
    "storage": network.rclone,
    "switch-user": wrappers.su,
    "synchronise": files.rsync,
    "sysctl": system.sysctl,
    "terminals": wrappers.tmux,
    "timetable": system.crontab,
    "traced": wrappers.strace,
    "trap": shell_builtins.trap,
    "truncate": files.truncate,
    "typescript": wrappers.record_session,
    "units": system.systemctl,
    "unset": shell_builtins.unset_names,
    "unpack": archives.unzip,
    "archive search": archives.zipgrep,
    "wait": shell_builtins.wait_for_process,
    "watch": wrappers.watch,
    "wget": network.wget,
    "which": shell_builtins.which,
    "yq": interpreters.json_filter,
}


_HELP_REQUESTS = (["--help"], ["--version"])
_HELP_OPTIONS = (["--help"], ["-help"])


def mark_effects(call: ProgramCall) -> str:
    """Marks the effects of a command; returns its output, if known."""
    entry = tables.find_program(call.program)
    if entry is None:
        if "exec-dynamic" not in call.effects:
            call.mark("unknown", f"{display_text(call.program)} is not known")
        _mark_mentioned_paths(call)
        return ANY_WORD
    if entry.spec.argument_files:
        _check_argument_files(call)
    if _asks_for_help(call, entry):
        call.mark("read", f"{call.program} only tells about itself")
        return ANY_WORD
    shell_builtins.mark_subscripts(call)
    mark_file_name_words(call, entry)
    mark_words_before_command(call, entry)
    if entry.spec.special:
        return PROGRAM_HANDLERS[entry.spec.special](call, entry) or ANY_WORD
    return apply_table(call, entry) or ANY_WORD


def _check_argument_files(call: ProgramCall) -> None:
    for word in call.argv[1:]:
        if word.startswith("@") or starts_unknown(word):
            call.dynamic(f"{call.program} may read options from the file of {display_text(word)}")


def _asks_for_help(call: ProgramCall, entry: tables.ProgramEntry) -> bool:
    """`rm --help`, `kubectl delete --help`; but options after `exec` belong to another program."""
    words = call.argv[1:]
    if words in _HELP_REQUESTS:
        return call.program not in _PRINTING_PROGRAMS
    if (
        entry.spec.verbs
        and words[1:] in _HELP_OPTIONS
        and is_fully_known(words[0])
        and words[0][:1].isalpha()
    ):
        return words[1:] == ["--help"] or entry.spec.single
    verbal = entry.spec.verbs and words[-1:] == ["--help"] and "--" not in words
    return (
        bool(verbal)
        and not _COMMAND_CARRYING_VERBS & set(words)
        and all(map(is_fully_known, words))
    )


_PRINTING_PROGRAMS = frozenset(
    {"echo", "printf", "yes", ":", "true", "false", "test", "[", "eval", "expr"}
)
_COMMAND_CARRYING_VERBS = frozenset(
    {"exec", "run", "debug", "create", "compose", "rsh", "ssh", "rebase", "bisect"}
)


def _mark_mentioned_paths(call: ProgramCall) -> None:
    """Marks the path arguments of an unknown program."""
    for word in call.argv[1:]:
        if is_fully_known(word) and "/" in word:
            call.reads(word.partition("=")[2] if word.startswith("-") else word)


MAX_COMMANDS = 200
"""A text with more commands is not analysed further, and needs approval."""
_MAX_STEPS = 1500
"""Commands that are analysed, with those of a loop or function each time that it runs."""
_MAX_WORDS = 6000
_MAX_NESTING = 10


_CAPTURED_ERRORS = re.compile(rb"2>\s*&|&>|>&|\|&")
_TREE_WRITERS = word_set(
    "bsdtar cpio pax 7z 7za 7zr 7zz unrar unar unsquashfs jar cabextract patch scp sftp rclone"
    " restic borg docker podman nerdctl kubectl oc lxc aws gsutil s3cmd s5cmd azcopy unison"
    " dpkg-deb"
)
"""Programs beside those of `files` that may write all that is below the path they are given."""


class CommandWalker:
    """Implements `CommandAnalyst` for program handlers and `CommandRecorder` for scripts."""

    def __init__(self, classifier: PathClassifier) -> None:
        self.classifier = classifier
        self.found: dict[SimpleCommand, None] = {}
        self.problems: dict[str, None] = {}
        self.places: set[tuple[bytes, int]] = set()
        self.steps = 0
        self.words = 0
        self.nesting = 0
        self.kept = self.captures = 0
        self._captures_errors = False

    def start(self, text: bytes, scope: ShellScope) -> None:
        self._captures_errors = _CAPTURED_ERRORS.search(text) is not None

        def around(node: Node, inner: ShellScope) -> ProgramCall:
            self._step(text, node)
            return ProgramCall(self, [], inner, node=(node.start_byte, node.end_byte))

        ShellScript(text, self, around).walk(scope, None)

    def problem(self, why: str) -> None:
        self.problems.setdefault(why)

    def shell(self, call: ProgramCall, text: str, scope: ShellScope) -> str:
        """Analyses a text that a command passes to a shell, in that shell's state."""
        if self.nesting >= _MAX_NESTING:
            raise TooManyCommands("shells within shells")
        self.nesting += 1
        try:
            return self._page(call, shell_source(text)).walk(scope, call.stdin)
        except ShellSyntaxError as lost:
            self.problem(str(lost))
            return ANY_WORD
        finally:
            self.nesting -= 1

    def _page(self, call: ProgramCall, text: str) -> ShellScript:
        source = text.encode("utf-8", "surrogateescape")

        def around(node: Node, inner: ShellScope) -> ProgramCall:
            self._step(source, node)
            return ProgramCall(
                self,
                [],
                inner,
                via=call.via,
                node=call.node,
                target=call.target,
                effects=dict(call.effects),
                borrowed=call.borrowed,
                guarded=call.guarded,
            )

        return ShellScript(source, self, around)

    def run(self, call: ProgramCall) -> str:
        if call.via:
            self._step()
        self.words += len(call.argv)
        if self.words > _MAX_WORDS:
            raise TooManyCommands(f"more than {_MAX_WORDS} words in all")
        word = call.argv[0]
        if word in call.scope.aliases:
            return self._alias(call, call.scope.aliases[word])
        if word in call.scope.functions:
            return self._function(call, word)
        call.program = program_name(call)
        mark_chosen_configuration(call)
        printed = mark_effects(call)
        self.keep(call)
        if self._captures_errors and any(map(has_untrusted_text, call.argv[1:])):
            return printed.replace(SYSTEM_NAME, ANY_WORD)  # an error repeats the words of the call
        return printed

    def _step(self, text: bytes = b"", node: Node | None = None) -> None:
        """A command of a text counts once; in a loop it is analysed for each of its values."""
        self.steps += 1
        self.places.add((text, node.start_byte) if node else (b"", -self.steps))
        if len(self.places) > MAX_COMMANDS or self.steps > _MAX_STEPS:
            raise TooManyCommands(f"more than {MAX_COMMANDS} commands")

    def _alias(self, call: ProgramCall, text: str) -> str:
        scope = call.scope.copy()
        del scope.aliases[call.argv[0]]
        rest = " ".join("'" + word.replace("'", "'\\''") + "'" for word in call.argv[1:])
        return self.shell(call, f"{text} {rest}", scope)

    def _function(self, call: ProgramCall, name: str) -> str:
        if call.paths or not READING_EFFECTS.issuperset(call.effects):
            self.keep(replace(call, argv=[], program=""))  # redirections and variables of the call
        if name in call.scope.calls:
            call.program = name
            if call.scope.multiplying:
                call.mark("fork-bomb", f"{name} starts itself again and again")
                call.irreversible(f"{name} starts itself again and again")
            else:
                call.dynamic(f"{name} calls itself")
            self.keep(call)
            return ANY_WORD
        if name in call.scope.uncertain_functions:
            call.program = name
            call.dynamic(f"{name} is a function only if a condition held")
            self.keep(call)
        inner = call.scope.for_call(name, tuple(call.argv))
        printed = call.scope.functions[name](inner, call.stdin)
        call.scope.return_from(inner)
        return printed

    def keep(self, call: ProgramCall) -> None:
        """Keeps the effects of a call, unless the commands that it runs have all of them."""
        mark_remote_command(call)
        if call.peeled is not None and frozenset(call.effects) - {"read"} <= call.peeled:
            if call.contents:  # `xargs -a F cmd`: what it hands on
                self.found.setdefault(replace(call, argv=[], program="", effects={}).result())
            return
        self._check_own(call)
        network.mark_unknown_text_sent(call)
        mark_connection_words(call)
        mark_privileged_read(call)
        if call.argv or call.effects or call.contents:
            self.kept += 1
            self.found.setdefault(call.result())

    def _check_own(self, call: ProgramCall) -> None:
        """Marks our own files that are named by a command whose changes no table describes."""
        if not self.classifier.own or frozenset(call.effects) <= READING_EFFECTS:
            return
        if call.program in _TREE_WRITERS:
            for path in filter(self.classifier.holds_own_file, (*call.changes, *call.repositories)):
                call.own_below(path)
        if frozenset(call.effects) <= READING_EFFECTS | {"secret-read"} and not any(
            self.classifier.is_own_file(path) and not self.classifier.is_own_record(path)
            for path in call.paths
        ):
            return
        vague = {"unknown", "exec-dynamic"} & call.effects.keys()
        if vague and any(self.classifier.mentions_own_file(word) for word in call.argv):
            call.own(next(word for word in call.argv if self.classifier.mentions_own_file(word)))
        elif not call.changes and any(self.classifier.is_own_file(path) for path in call.paths):
            call.own(next(path for path in call.paths if self.classifier.is_own_file(path)))
        elif not call.changes and self.classifier.is_own_file(call.scope.cwd):
            call.own(call.scope.cwd)


__all__ = [
    "ALWAYS_DENIED_EFFECTS",
    "READING_EFFECTS",
    "CommandAnalysis",
    "CommandEffect",
    "CommandTarget",
    "PathLookup",
    "SimpleCommand",
    "analyse_command",
]  # fmt: skip


def analyse_command(
    command: str,
    *,
    cwd: str = "/",
    home: str = "~",
    lookup: PathLookup | None = None,
    own_paths: Sequence[str] = (),
) -> CommandAnalysis:
    """The effects of a shell command in a working folder.

    `lookup` follows symlinks. `protected_paths` are the absolute paths of our policy, audit and
    configuration files.
    """
    kept = _kept_analyses(command, cwd, home, lookup, tuple(own_paths))
    for analysis, answers in kept:
        if all(question(path) == answer for (question, path), answer in answers.items()):
            return analysis
    classifier = PathClassifier(home, tuple(own_paths), lookup, cwd)
    analysis = _analyse(command, classifier)
    kept[:] = [(analysis, classifier.answers)]
    return analysis


@lru_cache(maxsize=256)
def _kept_analyses(
    command: str, cwd: str, home: str, lookup: PathLookup | None, own_paths: tuple[str, ...]
) -> list[tuple[CommandAnalysis, FileAnswers]]:
    """The last analysis of a text. It holds as long as the file system answers as it did then: the
    long scripts of playbooks and probes are judged again at every incident."""
    return []


def _analyse(command: str, classifier: PathClassifier) -> CommandAnalysis:
    problems = dict.fromkeys(syntax.find_misleading_characters(command))
    if why := syntax.find_parse_obstacle(command):
        return _build_analysis({}, {**problems, why: None})
    try:
        text = command.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return _build_analysis({}, {**problems, "bytes that are no text": None})
    walker = CommandWalker(classifier)
    scope = ShellScope(home=classifier.home, cwd=classifier.work)
    if not syntax.has_placeholders(command):
        try:
            walker.start(text, scope)
        except (TooManyCommands, ShellSyntaxError) as lost:
            walker.problem(str(lost))
        except RecursionError:
            walker.problem("nested too deeply to be read")
        except (LookupError, ValueError, TypeError, AttributeError, StopIteration) as bug:
            # An error here must lead to a question, not to an allowed command or a failing caller.
            walker.problem(f"the reader itself failed: {bug!r}")
    found = dict.fromkeys(disk_use.mark_endless_output(walker.found, command))
    return _build_analysis(found, {**problems, **walker.problems}, scope.used_variables)


def _build_analysis(
    found: dict[SimpleCommand, None], problems: dict[str, None], variables: Iterable[str] = ()
) -> CommandAnalysis:
    effects = frozenset(effect for command in found for effect in command.effects)
    if problems:
        effects |= {"exec-dynamic"}
    lines = (line for command in found for line in command.why)
    dynamic = dict.fromkeys(
        line.removeprefix("exec-dynamic: ") for line in lines if line.startswith("exec-dynamic: ")
    )
    return CommandAnalysis(
        commands=tuple(found),
        effects=effects or frozenset({"read"}),
        dynamic=(*problems, *dynamic),
        variables=tuple(sorted(variables)),
        problems=tuple(problems),
    )
