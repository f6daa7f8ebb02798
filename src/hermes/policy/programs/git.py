"""git and gh: options can set programs to run, refspecs with a plus overwrite history."""

import re
from collections.abc import Callable, Collection, Sequence
from itertools import pairwise

from hermes.policy.commands.calls import ProgramCall
from hermes.policy.commands.effects import word_set
from hermes.policy.commands.placeholders import (
    ANY_WORD,
    UNKNOWN_TEXT,
    display_text,
    has_untrusted_text,
    is_fully_known,
    literal_text,
)
from hermes.policy.commands.tables import (
    OptionGrammar,
    ParsedArguments,
    ProgramEntry,
    find_program,
    option_matches,
    parse_arguments,
)
from hermes.policy.programs.table_effects import apply_table

_HARMLESS_SETTING = re.compile(
    r"(?i)(?:color|advice|user\.(?:name|email)|core\.(?:quotepath|autocrlf|abbrev|pager=(?:cat)?$)"
    r"|log\.|diff\.(?:renames|color|context)|safe\.directory|init\.defaultbranch|http\.(?:sslverify|timeout)"
    r"|pull\.rebase|gc\.auto|column|status\.|branch\.sort|grep\.linenumber|blame)"
)


def git(call: ProgramCall, entry: ProgramEntry) -> str:
    found = parse_arguments(call.argv[1:], entry.grammar)
    # After the verb the same letters have another meaning.
    before = parse_arguments(
        call.argv[1:], OptionGrammar(entry.grammar.values, stops=1, stops_immediately=True)
    )
    if before.has("-p", "--paginate"):
        call.dynamic("git -p opens a pager, and out of that a shell")
    for setting in before.values("-c", "--config-env"):
        _judge_setting(call, setting)
    _enter_repository(call, before)
    apply_table(call, entry)
    verb, words = (found.words[0], found.words[1:]) if found.words else ("", [])
    if before.words == [verb] and (own := find_program(f"git {verb}")):
        words = parse_arguments(before.rest, own.under(entry)).words
    if judge := _VERB_HANDLERS.get(verb):
        judge(call, words)
    if {"write", "delete"} & set(call.effects) and verb not in _OUTPUT_FILE_VERBS:
        for folder in (".", *before.values("--git-dir", "--work-tree")):
            call.repositories += call.analyst.classifier.with_real_path(call.path(folder))
    _judge_work_tree(call, verb)
    _judge_start_point(call, verb, [*words, *before.rest])
    reused = found.values("-C", "-c", "--reuse-message", "--reedit-message")
    _judge_shown_files(call, verb, words + reused if verb == "notes" else words)
    _judge_printed_content(call, verb, found, before)
    if any(re.match(r"ext::", word) for word in words):
        call.dynamic("ext:: is a transport that runs a command")
    if found.loose and not _is_reading(call):
        call.dynamic("a word only known at run time may be an option of git")
    return ANY_WORD


def _enter_repository(call: ProgramCall, before: ParsedArguments) -> None:
    """Names the folders in which git finds its configuration."""
    if _VARIABLE_WRAPPERS.intersection(call.via):  # `env -C folder git`
        call.names(".")
        if has_untrusted_text(call.scope.cwd):
            call.dynamic("the repository, which may name programs, is only known at run time")
    for folder in before.values("-C"):  # each is relative to the one before
        path = call.names(folder)
        call.scope = call.scope.copy()
        call.scope.cwd = path
    for folder in before.values("--git-dir", "--work-tree"):
        call.names(folder)
        if has_untrusted_text(folder):
            call.dynamic("the repository, which may name programs, is only known at run time")


def _judge_shown_files(call: ProgramCall, verb: str, words: list[str]) -> None:
    """Files of the work tree or, as `commit:path`, of a commit, whose content is printed."""
    if verb in _OBJECT_VERBS and any(map(has_untrusted_text, words)):
        call.mark("secret-read", f"git {verb} prints a file that is only known at run time")
    if verb in _SHOWING_VERBS:
        names = {word.partition(":")[2] or word for word in words}
        names |= {word.rpartition(":")[2] or word for word in words}  # `:0:path`
        for path in map(call.path, sorted(names)):
            if call.analyst.classifier.is_secret(path):
                call.mark("secret-read", f"git {verb} prints {display_text(path)}")


_OBJECT_VERBS = frozenset({"show", "cat-file", "tag", "notes"})
"""Verbs that print a file of a commit as it is, or give it a name by which it is printed."""
_SHOWING_VERBS = _OBJECT_VERBS | {"blame", "annotate", "diff", "log"}


def _judge_printed_content(
    call: ProgramCall, verb: str, found: ParsedArguments, before: ParsedArguments
) -> None:
    """Git prints no difference of a secret file, by attributes that confined commands get.

    Not so where it is told to, where the attributes do not reach it, or for objects by number."""
    if verb == "cat-file":
        by_number = any(map(_OBJECT_NUMBER.match, found.words[1:]))
        if (by_number and not found.has("-t", "-s", "-e")) or found.has(
            "--batch", "--batch-command"
        ):
            call.mark("secret-read", "git cat-file prints any file by its number")
    if verb == "merge-tree":
        call.mark("secret-read", "git merge-tree prints secret files as well")
    if verb not in _CONTENT_VERBS:
        return
    patch = verb not in ("log", "reflog") or found.has(*_PATCH_OPTIONS)
    for option in found.names() if patch else ():
        if option == "-a" or (len(option) > 4 and option_matches(option, ("--text", "--binary"))):
            call.mark("secret-read", f"git {verb} {option} prints secret files as well")
    for value in found.values("-L"):
        if call.analyst.classifier.is_secret(call.path(value.rpartition(":")[2])):
            call.mark("secret-read", f"git {verb} prints {display_text(value)}")
    if (patch and _VARIABLE_WRAPPERS.intersection(call.via)) or before.has("--attr-source"):
        call.mark("secret-read", f"git {verb} without our attributes prints secret files as well")


_CONTENT_VERBS = word_set(
    "show log diff grep stash whatchanged diff-tree diff-index diff-files range-diff reflog blame"
)
_PATCH_OPTIONS = (
    "-p", "-u", "-U", "-L", "-c", "-m", "--patch", "--unified", "--patch-with-raw",
    "--patch-with-stat", "--cc", "--dd", "--remerge-diff", "--diff-merges", "--binary",
)  # fmt: skip
"""Options with which `git log` prints differences."""
_OBJECT_NUMBER = re.compile(r"(?:.*-g)?[0-9a-f]{4,40}(?:\^\{\w*\})?\Z", re.I)
_VARIABLE_WRAPPERS = word_set("env sudo doas su runuser")
"""Wrappers that may remove variables."""


def _judge_work_tree(call: ProgramCall, verb: str) -> None:
    if verb in _WORK_TREE_VERBS:
        for folder in filter(call.analyst.classifier.is_above_home_files, call.repositories):
            call.own_below(folder)
        words = call.argv[call.argv.index(verb) :]
        named = [word for word in words if word == "-" or not word.startswith("-")]
        starts_branch = {"-c", "--create"} & {*call.flags} and len(named) == 2  # it changes no file
        if verb not in _OTHER_TREE_VERBS and not starts_branch:
            policies = call.analyst.classifier.repository_policies
            for path in filter(None, map(policies, call.repositories)):
                call.mark("privilege", f"git {verb} may change {path}, which tightens the rules")
    if verb in _CHECKOUT_VERBS:
        call.scope.unpacked.add(call.scope.cwd)
    if "--no-index" in call.argv:
        for path in [call.path(word) for word in call.argv[2:] if not word.startswith("-")]:
            if call.analyst.classifier.may_contain_secrets(path):
                call.mark("secret-read", f"compares {display_text(path)}, with secrets in it")


_NAMING_VERBS = word_set("branch tag switch worktree")
"""Verbs that are free, and put the files of a commit into a folder, or give it a name for that."""
_FETCHED_COMMIT = re.compile(
    r".*FETCH_HEAD|(?:.*\.\.)?(?:refs/(?!heads/)|remotes/|(?:origin|upstream)/.)"
    r"|.*@\{(?:u|p)|.*\^\{/|:/",
    re.S | re.I,
)
"""What was only fetched: names of remotes, what a branch follows, searches in all commits."""
_COMMIT_NUMBER = re.compile(r"(?:.*-\d+-g)?[0-9a-f]{7,64}(?:[~^@:].*)?\Z", re.S | re.I)
_OWN_COMMIT = re.compile(r"(?:HEAD|@|-)(?:@\{-?\d+\})?(?:[~^]\d*)*\Z|@\{-?\d+\}")
_CREATING_OPTIONS = ("-c", "-C", "--cr", "--force-cr", "--orphan")
_UPSTREAM_OPTION = re.compile(r"-[urdDmM]|--(?:set-up|unset-up|delete|move|edit)")
_VALUE_OPTIONS = word_set("-b -B --reason --conflict")


def find_start_points(verb: str, rest: Sequence[str]) -> list[str]:
    """The commits from which `git switch`, `branch` and `worktree add` start, by their names.

    `rest` is what follows the verb. Commits that are `HEAD`, or come before it, are left out.
    """
    options = [word for word in rest if word.startswith("-") and word != "-"]
    if verb == "branch" and any(map(_UPSTREAM_OPTION.match, options)):
        return []
    words = _plain_words(rest)
    if verb == "worktree":
        words = words[2:] if words[:1] == ["add"] else []
    elif verb == "branch" or {*_CREATING_OPTIONS, "--create", "--force-create"} & {*options}:
        words = words[1:]
    return [word for word in words if not _OWN_COMMIT.match(word)]


def find_commit_words(verb: str, rest: Sequence[str]) -> list[str]:
    """Words of a verb that may name a commit; paths among them cannot be distinguished."""
    if verb in ("switch", "worktree"):
        return find_start_points(verb, rest)
    before_paths = rest[: rest.index("--")] if "--" in rest else rest
    words = _plain_words(before_paths, {"-m", "-F"} if verb == "merge" else set())
    return [word for word in words if not _OWN_COMMIT.match(word)]


def find_source(rest: Sequence[str]) -> list[str]:
    """The commit from which `git restore` takes files."""
    found = parse_arguments(list(rest), OptionGrammar(frozenset({"-s", "--source"})))
    return [word for word in found.values("-s", "--source") if not _OWN_COMMIT.match(word)]


def _plain_words(rest: Sequence[str], more: Collection[str] = ()) -> list[str]:
    return [
        word
        for before, word in pairwise(["", *rest])
        if before not in _VALUE_OPTIONS
        and before not in more
        and (word == "-" or not word.startswith("-"))
    ]


def is_commit_of_others(word: str) -> bool:
    """Return whether a word has the form of a number, or of a name that a remote gave."""
    return bool(_FETCHED_COMMIT.match(word) or _COMMIT_NUMBER.match(word))


def _judge_start_point(call: ProgramCall, verb: str, words: list[str]) -> None:
    """A commit that was only fetched may bring instructions, hooks and settings of others."""
    if verb not in _NAMING_VERBS or "write" not in call.effects:
        return
    if verb == "tag":
        found = list(filter(_FETCHED_COMMIT.match, words))
    else:
        starts = find_start_points(verb, call.argv[call.argv.index(verb) + 1 :])
        detached = verb == "switch" and {"-d", "--detach"} & {*call.flags}
        found = starts if detached else list(filter(is_commit_of_others, starts))
    for word in found:
        call.mark("privilege", f"{display_text(word)} may bring files of others that run")


def _judge_setting(call: ProgramCall, setting: str) -> None:
    if not _HARMLESS_SETTING.match(setting) or not is_fully_known(setting):
        call.dynamic(f"git -c {display_text(setting)} can run a program")
        if "!" in setting or "ommand" in setting or "pager" in setting:
            call.shell(setting.partition("=")[2].lstrip("!"))


def _is_reading(call: ProgramCall) -> bool:
    return set(call.effects) <= {"read"}


def _judge_worktree(call: ProgramCall, words: list[str]) -> None:
    if words[:1] == ["add"]:
        for word in words[1:2]:
            call.writes(word, "git checks out a tree there")


def _judge_add(call: ProgramCall, words: list[str]) -> None:
    """Judge `git add`: `git show` and `git diff --cached` show what is in the index."""
    for path in map(call.path, words):
        if call.analyst.classifier.is_secret(path):
            call.mark("secret-read", f"{display_text(path)} holds secrets")
    if {"-f", "--force"} & set(call.flags):
        call.mark("secret-read", "git add --force takes ignored files as well, such as secrets")


def _judge_fetch(call: ProgramCall, words: list[str]) -> None:
    forced = {"-f", "--force"} & set(call.flags) or any(word.startswith("+") for word in words)
    if forced:
        call.mark("delete", "git fetch overwrites branches, whatever they held")
    for word in words[1:]:
        target = word.lstrip("+").partition(":")[2]
        if target:
            call.mark("delete", f"git fetch changes what {display_text(target)} names")
        if _OBJECT_NUMBER.match(word.lstrip("+").partition(":")[0]) and _is_local(words[0]):
            call.mark("secret-read", "git fetch gives any file a name by which it is printed")
    if _REFERENCE_OPTIONS.intersection(call.flags):
        call.mark("delete", "git fetch changes references beside those it fetches")
    if any(map(has_untrusted_text, (*words, *call.argv))):
        call.mark("network-out", "git fetch sends what is only known at run time")


def _judge_remote_listing(call: ProgramCall, words: list[str]) -> None:
    if any(UNKNOWN_TEXT.search(word) for word in words):
        call.mark("network-out", "git ls-remote sends what is only known at run time")


_REFERENCE_OPTIONS = word_set(
    "-P --prune-tags --refmap -u --update-head-ok --stdin --set-upstream --write-fetch-head"
)


def _is_local(remote: str) -> bool:
    """Return whether it is a folder of this machine."""
    return remote.startswith((".", "/", "~", "file:")) or has_untrusted_text(remote)


def _judge_push(call: ProgramCall, words: list[str]) -> None:
    for word in words:
        if word.startswith("+"):
            call.irreversible(f"git push {display_text(word)} overwrites history")
        if word.startswith(":"):
            call.mark("delete", f"git push {display_text(word)} removes a branch")
            call.irreversible(f"git push {display_text(word)} removes a branch")


_LIST_OPTIONS = word_set(
    "-l --list -a -r --all --contains --merged --no-merged -v -vv --points-at --show-current -n"
    " --sort --format --verify"
)


def _judge_branch_or_tag(call: ProgramCall, words: list[str]) -> None:
    """`git branch x` and `git tag x` create one, unless they list."""
    if words and not _LIST_OPTIONS & set(call.flags):
        call.mark("write", f"git names {display_text(words[0])}")
    if {"-f", "--force", "-M", "-C"} & set(call.flags):
        call.mark("delete", "git moves a name away from what it stood for")


_CONFIG_READ_OPTIONS = frozenset({
    "--get", "--list", "-l", "--get-all", "--get-regexp", "--show-origin", "--get-urlmatch",
    "--name-only", "--show-scope",
})  # fmt: skip

_CONFIG_CHANGE_OPTION = re.compile(r"-e\Z|--(?:un|ad|re|ed)")
"""--unset, --add, --replace-all, --rename-section, --remove-section, --edit, also abbreviated."""


def _judge_config(call: ProgramCall, words: list[str]) -> None:
    flags = set(call.flags)
    values = [word for word in words if word not in ("list", "get")]
    reading = flags & _CONFIG_READ_OPTIONS or words[:1] in (["list"], ["get"]) or len(values) == 1
    if reading and not any(map(_CONFIG_CHANGE_OPTION.match, flags)) and words[:1] != ["edit"]:
        call.effects.pop("write", None)
        call.mark("read", "git config tells")
        return
    call.mark("write", "git config changes settings")
    if not _HARMLESS_SETTING.match(values[0] if values else "x"):
        name = display_text(literal_text(values[0])) if values else ""
        call.dynamic(f"git config {name} can run a program")


_VERB_HANDLERS: dict[str, Callable[[ProgramCall, list[str]], None]] = {
    **dict.fromkeys(("add", "stage"), _judge_add),
    "branch": _judge_branch_or_tag,
    "config": _judge_config,
    **dict.fromkeys(("fetch", "pull"), _judge_fetch),
    "ls-remote": _judge_remote_listing,
    "push": _judge_push,
    "tag": _judge_branch_or_tag,
    "worktree": _judge_worktree,
}
_OUTPUT_FILE_VERBS = word_set("log diff show")
"""Verbs that write only to the file of an option."""
_CHECKOUT_VERBS = word_set("clone checkout pull switch worktree submodule restore")

_WORK_TREE_VERBS = _CHECKOUT_VERBS | word_set(
    "reset stash merge rebase cherry-pick revert clean apply am read-tree checkout-index mv rm"
)
"""Verbs that write files of the work tree."""
_OTHER_TREE_VERBS = word_set("clone worktree submodule")
"""Verbs that write files of another work tree."""


def github(call: ProgramCall, entry: ProgramEntry) -> str:
    """`gh api` is a request of any kind."""
    found = parse_arguments(call.argv[1:], entry.grammar)
    apply_table(call, entry)
    if found.words[:2] == ["auth", "status"] and found.has("-t", "--show-token"):
        call.mark("secret-read", "gh auth status shows the token")
    for path in map(call.path, found.words[1:]):
        if call.analyst.classifier.is_secret(path):
            call.mark("secret-read", f"{call.program} prints {display_text(path)}")
    if found.words[:1] == ["api"]:
        method = (found.value("-X", "--method") or "GET").upper()
        if method != "GET" or found.has("-f", "-F", "--field", "--raw-field", "--input"):
            call.mark("network-out", f"gh api {display_text(method)}")
            call.mark("write", f"gh api {display_text(method)}")
    return ANY_WORD
