"""Programs whose arguments are another command, in ways that a table cannot describe."""

import re
import shlex
from posixpath import basename, dirname

from hermes.policy.commands import assignments
from hermes.policy.commands.calls import ProgramCall
from hermes.policy.commands.effects import word_set
from hermes.policy.commands.placeholders import (
    ANY_WORD,
    ANY_WORDS,
    LIVE_GLOB,
    ONE_OF_SEVERAL,
    SYSTEM_NAME,
    display_text,
    has_untrusted_text,
    is_fully_known,
    literal_text,
)
from hermes.policy.commands.tables import (
    OptionGrammar,
    ParsedArguments,
    ProgramEntry,
    parse_arguments,
)
from hermes.policy.programs.client_commands import PSQL_CLIENTS
from hermes.policy.programs.table_effects import apply_table

_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_BASH_LIKE_SHELLS = word_set("sh bash dash ash ksh ksh93 mksh rbash")
_SHELL_VALUE_OPTIONS = frozenset({"-o", "-O", "--rcfile", "--init-file"})


def env(call: ProgramCall, entry: ProgramEntry) -> str:
    """`env`: options, assignments, then a command; -S has all of that in one word."""
    found = parse_arguments(call.argv[1:], OptionGrammar(entry.grammar.values, stops=0))
    if found.has("-S", "--split-string"):
        inner = found.value("-S", "--split-string") or ""
        return call.run(["env", *_split_env_string(inner), *found.rest])
    if folder := found.value("-C", "--chdir"):
        call.scope = call.scope.copy()
        call.scope.cwd = call.path(folder)
    words = found.rest
    while words and _ASSIGNMENT.match(words[0]):
        name, _, value = words[0].partition("=")
        assignments.check_assignment(call, name, value)
        assignments.check_exported_variable(call, name, value)
        words = words[1:]
    if not words:
        call.mark("read", "env prints the environment")
        call.scope.content_tests.add("a look at the environment")
        return ANY_WORD
    if found.has("-i", "-u", "-", "--ignore-environment", "--unset") and (
        "setsid" in call.via or any("setsid" in word for word in words)
    ):
        call.mark("service-change", "it outlives the session: its variables are how it is found")
    removed = found.values("-u", "--unset")
    if found.has("-i", "-", "--ignore-environment") or "PGOPTIONS" in removed:
        _check_session_variables(call, words)
    return call.run(words)


def _check_session_variables(call: ProgramCall, words: list[str]) -> None:
    if PSQL_CLIENTS.intersection(map(basename, words)):
        call.dynamic("it removes the variable with which the session of a query is read-only")


def _split_env_string(text: str) -> list[str]:
    """Words of `env -S`, whose quoting is close enough to the shell's."""
    unquoted = re.findall(r"'[^']*'|\"[^\"]*\"|(?:\\.|[^\s'\"])+", literal_text(text))
    return [re.sub(r"\\(.)", r"\1", word.strip("'\"").replace("\\_", " ")) for word in unquoted]


def shell(call: ProgramCall, entry: ProgramEntry) -> str:
    """`sh`, `bash` and others: -c text, a script, or the input."""
    found = parse_arguments(
        _without_plus_options(call.argv[1:]), OptionGrammar(_SHELL_VALUE_OPTIONS, stops=0)
    )
    if call.program not in _BASH_LIKE_SHELLS:
        call.dynamic(f"{call.program} has a grammar of its own")
    call.flags = tuple(found.names())
    if found.has("--rcfile", "--init-file", "-i", "-l", "--login") and not found.has("-c"):
        call.dynamic("an interactive shell reads its own start files")
    if found.has("--rcfile", "--init-file"):
        call.dynamic("start files of the caller's choice")
    if found.names() <= {"-n", "-v", "-x"} and found.has("-n") and found.rest:
        call.mark("read", "looks for mistakes without running anything")
        call.reads(found.rest[0])
        return ANY_WORD
    if found.has("-c"):
        return _command_string(call, found.rest)
    if found.has("-s") or not found.rest or found.rest[0] in ("-", "/dev/stdin"):
        call.dynamic("a shell runs whatever it is given as input")
        return call.shell(call.stdin, stdin="") if call.stdin else ANY_WORD
    call.dynamic(f"runs the script {display_text(found.rest[0])}, which is not read here")
    for word in found.rest:
        call.reads(word)
    return ANY_WORD


def _without_plus_options(words: list[str]) -> list[str]:
    return ["-" + word[1:] if re.fullmatch(r"\+[a-zA-Z]+", word) else word for word in words]


def _command_string(call: ProgramCall, rest: list[str]) -> str:
    if not rest:
        return ""
    text, *arguments = rest
    if not is_fully_known(text) and has_untrusted_text(text):
        call.dynamic("the text for the shell is only known at run time")
    inner = call.scope.copy()
    inner.arguments = tuple(arguments) if arguments else (call.program,)
    inner.functions, inner.aliases = {}, {}
    return call.shell(text, scope=inner)


def sudo(call: ProgramCall, entry: ProgramEntry) -> str:
    """`sudo` and `doas`: the command gets the privilege; assignments may precede it."""
    found = parse_arguments(call.argv[1:], entry.grammar)
    call.flags = tuple(found.names())
    if found.has("-l", "--list", "-k", "-K", "--remove-timestamp") and not found.rest:
        call.mark("read", f"{call.program} tells what is allowed")
        return ANY_WORD
    call.borrowed = f"{call.program} runs it as another user"
    if folder := found.value("-D", "--chdir"):
        call.scope = call.scope.copy()
        call.scope.cwd = call.path(folder)
    if found.has("-e", "--edit"):
        for word in found.rest:
            call.writes(word)
        return ANY_WORD
    words = found.rest
    while words and _ASSIGNMENT.match(words[0]):
        name, _, value = words[0].partition("=")
        assignments.check_assignment(call, name, value)
        assignments.check_exported_variable(call, name, value)
        words = words[1:]
    if not words:
        call.dynamic(f"{call.program} opens a shell")
        return ANY_WORD
    return call.run(words)


def su(call: ProgramCall, entry: ProgramEntry) -> str:
    """`su` and `runuser`: a shell of another user, with -c its text."""
    found = parse_arguments(call.argv[1:], entry.grammar)
    call.flags = tuple(found.names())
    if not _gives_up_root(call, found):
        call.borrowed = f"{call.program} becomes another user"
    text = found.value("-c", "--command", "--session-command")
    if text is not None:
        return call.shell(text)
    if call.program == "runuser" and found.value("-u", "--user") and found.words:
        return call.run(call.argv[call.argv.index(found.words[0]) :])
    call.dynamic(f"{call.program} opens a shell")
    return ANY_WORD


def _gives_up_root(call: ProgramCall, found: ParsedArguments) -> bool:
    """Only root may run `runuser -u`; as another user a command has fewer rights, not more."""
    user = found.value("-u", "--user") or ""
    return (
        call.program == "runuser"
        and found.names() <= {"-u", "--user", "-l", "--login", "-"}
        and is_fully_known(user)
        and literal_text(user) not in ("", "root", "0", "toor")
    )


def xargs(call: ProgramCall, entry: ProgramEntry) -> str:
    """`xargs`: the command gets words from the input."""
    found = parse_arguments(call.argv[1:], entry.grammar)
    call.flags = tuple(found.names())
    words = found.rest or ["echo"]
    for file in found.values("-a", "--arg-file"):
        call.reads(file)
    given = [ANY_WORDS] if found.has("-a", "--arg-file") else _xargs_words(call.stdin, found)
    mark = found.value("-I", "-i", "--replace", "-J")
    if mark is None and found.has("-I", "-i", "--replace"):
        mark = "{}"
    if mark:
        line = " ".join(given).replace(ANY_WORDS, ANY_WORD)  # a line replaces a part of one word
        return call.run([word.replace(mark, line) for word in words], stdin="")
    if found.has("-a", "--arg-file"):
        call.run([*words, f"/{SYSTEM_NAME}"], stdin="")  # the list may name any file
    return call.run([*words, *given], stdin="")


def _xargs_words(fed: str | None, found: ParsedArguments) -> list[str]:
    """The words that xargs reads from its input, as far as known."""
    if fed is None or has_untrusted_text(fed):
        return [ANY_WORDS]
    fed = fed.replace(ONE_OF_SEVERAL, "")
    if not is_fully_known(fed) or LIVE_GLOB.search(fed):
        whole = found.has("-0", "--null", "-d", "--delimiter", "-I", "-i", "--replace", "-L")
        splits = not whole and "/" in fed  # the names of files may have spaces
        return [*fed.split(), *([ANY_WORDS] if splits else [])] or [SYSTEM_NAME]
    text = literal_text(fed)
    if found.has("-0", "--null"):
        return [text]
    if found.has("-d", "--delimiter"):
        return text.split(found.value("-d", "--delimiter") or "\n")
    if found.has("-I", "-i", "--replace", "-L"):
        return text.splitlines()
    try:
        return shlex.split(text)
    except ValueError:
        return [ANY_WORDS]


def parallel(call: ProgramCall, entry: ProgramEntry) -> str:
    """`parallel cmd ::: words`: one shell command for each word."""
    found = parse_arguments(call.argv[1:], entry.grammar)
    words = found.rest
    if not found.names() <= word_set(entry.spec.harmless):
        call.mark("unknown", "parallel has an option that is not known to be harmless")
    if any("{=" in word for word in words):
        call.dynamic("parallel runs Perl code in {= =}")
    cut = next((at for at, word in enumerate(words) if word.startswith(":::")), len(words))
    command, given = words[:cut], [word for word in words[cut + 1 :] if not word.startswith(":::")]
    given = given or [ANY_WORD]
    if not command:
        call.dynamic("parallel runs its input as commands")
        for one in given:
            call.shell(one)
        return ANY_WORD
    text = " ".join(command)
    for one in given[:8]:
        filled = text.replace("{}", one) if "{}" in text else f"{text} {one}"
        call.shell(filled)
    if len(given) > 8:
        call.dynamic("parallel over more words than are read here")
    return ANY_WORD


def watch(call: ProgramCall, entry: ProgramEntry) -> str:
    """`watch cmd`: through a shell, unless -x."""
    found = parse_arguments(call.argv[1:], entry.grammar)
    call.flags = tuple(found.names())
    if found.has("-x", "--exec"):
        return call.run(found.rest)
    return call.shell(" ".join(found.rest)) if found.rest else ""


_PLAIN_TMUX_FORMAT = re.compile(r"#\{[a-z_]+\}|#[A-Z]")
"""A variable. Modifiers may expand to `#(command)`."""
_PRINT_OPTION = re.compile(r"-[aCeJNPqT]*p")


def tmux(call: ProgramCall, entry: ProgramEntry) -> str:
    """tmux and screen: a `;` among the words separates commands of tmux."""
    apply_table(call, entry)
    if any(word.endswith(";") for word in call.argv):
        call.dynamic("several commands of tmux")
    if any("#" in _PLAIN_TMUX_FORMAT.sub("", word) for word in call.argv):
        call.dynamic("tmux may run a command that stands in a format")
    if any(map(has_untrusted_text, call.argv)):
        call.dynamic(f"{call.program} may find a command in words only known at run time")
    if {"capture-pane", "capturep"} & {*call.argv} and not any(map(_PRINT_OPTION.match, call.argv)):
        call.mark("service-change", "tmux capture-pane without -p keeps the text in the server")
    return ANY_WORD


def flock(call: ProgramCall, entry: ProgramEntry) -> str:
    """`flock file cmd` and `flock file -c text`; a number is an open descriptor."""
    found = parse_arguments(call.argv[1:], entry.grammar)
    call.mark("read", "takes a lock")
    rest = found.rest
    text = found.value("-c", "--command")
    printed = ""
    if text is not None:
        printed = call.shell(text)
    elif rest[:1] in (["-c"], ["--command"]):
        printed = call.shell(" ".join(rest[1:]))
    elif rest:
        printed = call.run(rest)
    for file in found.words[:1]:
        if not file.isdigit():  # opened by flock, not by its command
            call.writes(file, f"flock makes {display_text(file)} if it is not there")
    return printed


def record_session(call: ProgramCall, entry: ProgramEntry) -> str:
    """`script -c text file` records a shell."""
    found = parse_arguments(call.argv[1:], entry.grammar)
    logs = ("-I", "-O", "-B", "-T", "--log-in", "--log-out", "--log-io", "--log-timing")
    for word in (*(found.words or ["typescript"]), *found.values(*logs, "--timing")):
        call.writes(word)
    text = found.value("-c", "--command")
    if text is None:
        call.dynamic("script opens a shell")
        return ANY_WORD
    return call.shell(text)


def at_job(call: ProgramCall, entry: ProgramEntry) -> str:
    """`at` and `batch`: the input runs later."""
    found = parse_arguments(call.argv[1:], entry.grammar)
    if (found.has("-l", "-q") and not found.words and call.stdin is None) or call.program == "atq":
        call.mark("read", "lists what will run")
        return ANY_WORD
    if found.has("-d", "-r") or call.program == "atrm":
        call.mark("delete", "removes a planned command")
        return ANY_WORD
    call.dynamic(f"{call.program} runs its input later")
    return call.shell(call.stdin, stdin="") if call.stdin else ANY_WORD


def busybox(call: ProgramCall, entry: ProgramEntry) -> str:
    """`busybox rm`: the next word is the program."""
    words = call.argv[1:]
    if not words or words[0] in ("--list", "--list-full", "--help"):
        call.mark("read", f"{call.program} tells about itself")
        return ANY_WORD
    return call.run(words)


def strace(call: ProgramCall, entry: ProgramEntry) -> str:
    """`strace`, `ltrace`: trace a process or start one; they can inject faults."""
    found = parse_arguments(call.argv[1:], entry.grammar)
    if any(
        re.search(r"inject|fault", value) for value in found.values("-e", "--inject", "--fault")
    ):
        call.mark("service-change", f"{call.program} makes calls of the process fail")
    if found.has("-p", "--attach") and not found.has("-c", "--summary-only"):
        call.mark("secret-read", f"{call.program} shows what a process reads and writes")
    apply_table(call, entry)
    return ANY_WORD


def nsenter(call: ProgramCall, entry: ProgramEntry) -> str:
    """nsenter: entering only the network namespace is harmless, as with `ip netns exec`."""
    found = parse_arguments(call.argv[1:], entry.grammar)
    if not found.names() <= {"-t", "--target", "-n", "--net"} or not found.rest:
        apply_table(call, entry)
        return ANY_WORD
    call.borrowed = "nsenter looks from within another network"
    return call.run(found.rest)


def ldd(call: ProgramCall, entry: ProgramEntry) -> str:
    """ldd may run its argument; programs of the system are harmless."""
    found = parse_arguments(call.argv[1:], entry.grammar)
    system = [
        call.analyst.classifier.is_trusted_folder(dirname(call.path(one))) for one in found.words
    ]
    if system and all(system) and not found.options:
        call.mark("read", "ldd names libraries")
        return ANY_WORD
    return apply_table(call, entry) or ANY_WORD


def loader(call: ProgramCall, entry: ProgramEntry) -> str:
    """`ld.so program`: the dynamic linker starts it."""
    call.dynamic("the dynamic linker runs a program")
    words = [word for word in call.argv[1:] if not word.startswith("-")]
    return call.run(words) if words else ANY_WORD
