"""Programs that move, remove, overwrite, pack or find files, or change permissions."""

import re
from fnmatch import fnmatchcase
from itertools import pairwise
from posixpath import basename, dirname

from hermes.policy.commands import paths
from hermes.policy.commands.calls import ProgramCall
from hermes.policy.commands.effects import word_set
from hermes.policy.commands.placeholders import (
    ANY_WORD,
    ANY_WORDS,
    GLOB_STAR,
    LIVE_GLOB,
    NON_EMPTY_WORD,
    SYSTEM_NAME,
    UNTRUSTED_UNKNOWN,
    display_text,
    has_untrusted_text,
    is_fully_known,
    literal_text,
    starts_unknown,
    starts_with_glob,
    with_live_globs,
)
from hermes.policy.commands.tables import ParsedArguments, ProgramEntry, parse_arguments
from hermes.policy.programs.table_effects import apply_table


def _parse_file_arguments(call: ProgramCall, entry: ProgramEntry) -> ParsedArguments:
    found = parse_arguments(call.argv[1:], entry.grammar)
    call.flags = tuple(found.names())
    return found


def remove(call: ProgramCall, entry: ProgramEntry) -> str:
    found = _parse_file_arguments(call, entry)
    recursive = found.has("-r", "-R", "--recursive") or call.program in ("shred", "srm", "wipe")
    recursive = recursive or any(name.startswith("--r") for name in found.names())
    for word in found.words:
        unset = word in (ANY_WORD, ANY_WORDS) or word[:2] in (ANY_WORD + "/", ANY_WORDS + "/")
        call.deletes(word, recursive=recursive)
        if recursive and unset and NON_EMPTY_WORD not in word:
            call.irreversible(f"{display_text(word)} may be any folder, / among them")
    if not found.words:
        call.mark("delete", f"{call.program} without a file")
    if found.has("--no-preserve-root"):
        call.wipe("--no-preserve-root")
    return ""


def move(call: ProgramCall, entry: ProgramEntry) -> str:
    found = _parse_file_arguments(call, entry)
    target = found.value("-t", "--target-directory")
    sources = found.words if target else found.words[:-1]
    keeps_names = bool(target or (found.words and found.words[-1].endswith("/")))
    for word in sources:
        path = call.names(word)
        call.mark("write", f"moves {display_text(path)}")
        call.disturbs(path, tree=True)
        call.changes.append(path)
        for each in call.analyst.classifier.with_real_path(path):
            if call.analyst.classifier.is_own_file(each, tree=True):
                call.own(each)
            if not (keeps_names and LIVE_GLOB.search(basename(each))):
                _judge_new_name(call, each)
            if call.analyst.classifier.is_system_tree(each):
                call.wipe(f"{display_text(each)} is a tree of the system")
            elif call.analyst.classifier.is_precious(each):
                call.irreversible(f"{display_text(each)} is part of the system")
    for word in _target_paths(call, found, sources):
        _judge_backup(call, found, word)
        call.writes(word, tree=True)
        if call.path(word) == "/dev/null":
            call.mark("delete", "moved to nowhere")
            call.irreversible("moved to nowhere")
    return ""


_SECRET_FOLDERS = word_set(".ssh .aws .kube .docker .gnupg .azure .config .gem .cargo")
_SECRET_NAMES = _SECRET_FOLDERS | word_set(
    ".env a.env server.key server.pem id_rsa .netrc .pgpass credentials secrets.yaml"
)
"""Examples that a wildcard may find."""


def _judge_new_name(call: ProgramCall, path: str) -> None:
    """By another name a secret would be read without a question, and its service misses it."""
    name = basename(path.rstrip("/"))
    found = LIVE_GLOB.search(name) and any(
        fnmatchcase(each, literal_text(name)) for each in _SECRET_NAMES
    )
    secret = any(map(call.analyst.classifier.is_secret, (path, f"{path}/x")))
    if secret or found or name in _SECRET_FOLDERS:
        call.mark("secret-read", f"gives another name to {display_text(path)}, which holds secrets")


def _judge_backup(call: ProgramCall, found: ParsedArguments, word: str) -> None:
    """`--backup` renames what was at the target before."""
    if found.has("-b", "--backup", "-S", "--suffix"):
        _judge_new_name(call, call.path(word))


def copy(call: ProgramCall, entry: ProgramEntry) -> str:
    found = _parse_file_arguments(call, entry)
    target = found.value("-t", "--target-directory")
    linked = found.has("-l", "--link", "-s", "--symbolic-link") and call.program == "cp"
    for word in found.words if target else found.words[:-1]:
        call.reads(word)
        if linked:
            call.changes.append(call.path(word))
        if call.path(word) == "/dev/null" and found.words:
            call.deletes(found.words[-1], why="emptied by copying /dev/null over it")
    _judge_mode(call, found.value("-m", "--mode") or "")
    sources = found.words if target else found.words[:-1]
    whole = found.has("-r", "-R", "-a", "--recursive", "--archive")
    keeps_links = whole or found.has("-P", "-d", "--no-dereference", "--preserve")
    dresses = call.program == "install" or found.has(
        "-a", "--archive", "-p", "--preserve", "--attributes-only"
    )
    for word in _target_paths(call, found, sources):
        _judge_backup(call, found, word)
        call.writes(word, tree=whole, attributes=dresses)
        if keeps_links and call.program == "cp":
            call.scope.unpacked.add(call.path(word))
    if whole and any(
        call.analyst.classifier.may_contain_secrets(call.path(word)) for word in found.words[:-1]
    ):
        call.mark("secret-read", "copies a tree with secrets in it")
    if call.program == "install" and found.has("-d", "--directory"):
        for word in found.words:
            call.writes(word)
    return ""


def _target_paths(call: ProgramCall, found: ParsedArguments, sources: list[str]) -> list[str]:
    """The new paths of the files: inside the target, when it can only be a folder."""
    into = found.value("-t", "--target-directory")
    target = into or (found.words or [ANY_WORD])[-1]
    path = call.path(target)
    folder = target.endswith(("/", "/.")) or path in ("/tmp", "/var/tmp")
    if is_fully_known(path) and not found.has("-T", "--no-target-directory"):
        folder = folder or bool(into) or call.analyst.classifier.holds_own_file(path)
    if not folder or not sources or not all(basename(one.rstrip("/")) for one in sources):
        return [target]
    return [f"{target.rstrip('/')}/{basename(one.rstrip('/'))}" for one in sources]


def mktemp(call: ProgramCall, entry: ProgramEntry) -> str:
    """mktemp: in the temporary folder, unless another one is given."""
    found = _parse_file_arguments(call, entry)
    folder = found.value("-p", "--tmpdir")
    template = found.words[0] if found.words else "tmp.XXXXXXXXXX"
    inside = not found.words or found.has("-t", "-p", "--tmpdir")
    if not found.has("-u", "--dry-run"):
        template += found.value("--suffix") or ""
        call.writes(f"{folder or '/tmp'}/{template}" if inside else template)
    return ANY_WORD if has_untrusted_text(template + (folder or "")) else SYSTEM_NAME


def split_file(call: ProgramCall, entry: ProgramEntry) -> str:
    """split: the second word is the prefix of the output files."""
    found = _parse_file_arguments(call, entry)
    apply_table(call, entry)
    call.writes((found.words[1] if len(found.words) > 1 else "x") + "aa")
    return ANY_WORD


def fallocate(call: ProgramCall, entry: ProgramEntry) -> str:
    """fallocate: a full disk affects everything on it."""
    found = _parse_file_arguments(call, entry)
    apply_table(call, entry)
    if _gibibytes(found.value("-l", "--length") or "") >= 1:
        call.mark("unknown", "may fill the disk")
    return ""


_SIZE = re.compile(r"(\d+)([KMGTPE]?)(?:i?B)?\Z", re.IGNORECASE)


def _gibibytes(size: str) -> float:
    """Infinite when the size is known only at run time."""
    found = _SIZE.match(size)
    if found is None:
        return 0.0 if not size else float("inf")
    return (
        int(found[1]) * 1024.0 ** ("KMGTPE".find(found[2].upper()) + 1 if found[2] else 0) / 2**30
    )


def link(call: ProgramCall, entry: ProgramEntry) -> str:
    found = _parse_file_arguments(call, entry)
    target = found.value("-t", "--target-directory")
    for word in found.words:
        for path in _led_to(call, found, word):
            if call.analyst.classifier.is_own_file(path, tree=True):
                call.own(path)
            if call.analyst.classifier.is_secret(path):
                call.mark("secret-read", f"a second name for {display_text(path)}")
    call.writes(target or (found.words[-1] if found.words else ANY_WORD))
    for word in found.words if target else found.words[:-1]:
        # A change through the new name also changes the old one.
        call.names(word)
        call.changes += _led_to(call, found, word)
    return ""


def _led_to(call: ProgramCall, found: ParsedArguments, word: str) -> list[str]:
    """Where a link with this target leads: a relative symlink starts from its own folder."""
    relative = not word.startswith(("/", "~")) and not UNTRUSTED_UNKNOWN.match(word[:1])
    if not relative or not found.has("-s", "--symbolic") or found.has("-r", "--relative"):
        return [call.path(word)]
    if folder := found.value("-t", "--target-directory"):
        return [call.path(f"{folder}/{word}")]
    if len(found.words) < 2 or word is found.words[-1]:
        return [call.path(word)]
    name = found.words[-1]
    inside, beside = call.path(f"{name}/{word}"), call.path(f"{dirname(name) or '.'}/{word}")
    if found.has("-T", "--no-target-directory"):
        return [beside]
    if len(found.words) > 2 or name.endswith("/"):
        return [inside]
    return [beside, inside] if call.analyst.classifier.may_be_folder(call.path(name)) else [beside]


def change_permissions(call: ProgramCall, entry: ProgramEntry) -> str:
    """chmod, chown, chgrp, chattr, setfacl, setcap."""
    call.argv = [
        word.replace("-", "=", 1) if _PERMISSION_REMOVAL.fullmatch(word) else word
        for word in call.argv
    ]
    found = _parse_file_arguments(call, entry)
    words = found.words
    if found.value("--reference") is None and call.program != "setfacl":
        if words:
            _judge_mode(call, words[0])
        words = words[1:]
    recursive = found.has("-R", "--recursive")
    for word in words:
        path = call.path(word)
        why = f"{call.program} changes who may use {display_text(path)}"
        call.writes(word, why, attributes=True)
        call.disturbs(path, tree=True)
        worst = paths.with_unknown_emptied(path) if UNTRUSTED_UNKNOWN.search(path) else path
        if recursive and call.analyst.classifier.is_own_file(path, tree=True):
            call.own(path)
        if recursive and call.analyst.classifier.is_system_tree(worst):
            call.irreversible(f"rights of all of {display_text(path)} are lost")
    call.mark("write", f"{call.program} changes rights")
    if call.program in ("setcap", "chattr"):
        call.mark("privilege", f"{call.program} changes what the kernel allows")
    return ""


_PERMISSION_REMOVAL = re.compile(r"-[rwxXst]+(?:,[ugoa]*[-+=][rwxXst]*)*")
"""`chmod -x file`: looks like an option, but removes permissions."""


def _judge_mode(call: ProgramCall, mode: str) -> None:
    if re.fullmatch(r"[0-7]*[4-7][0-7]{3}|[ugoa]*[+=][rwxXt]*s.*|.*[+=,][rwxX]*s[rwxXt]*", mode):
        call.mark("privilege", "a file that runs with its owner's rights")


def dd(call: ProgramCall, entry: ProgramEntry) -> str:
    """`dd if=… of=…`."""
    call.mark("read", "dd copies")
    targets = {word for word in call.argv[1:] if word.startswith("of=")}
    blocks = 1.0
    for word in call.argv[1:]:
        key, equals, value = word.partition("=")
        if key == "of" and equals:
            call.writes(value)
            if paths.with_unknown_emptied(call.path(value)) == "/dev":
                call.wipe("the device to overwrite is only known at run time")
            _mark_emptied(call, value)
        elif key in ("count", "bs") and equals:
            blocks *= _gibibytes(value) * 2**30
        elif key == "if" and equals:
            # A test of the speed prints nothing of the file.
            (call.names if targets == {"of=/dev/null"} else call.reads)(value)
        elif UNTRUSTED_UNKNOWN.match(word[:1]):
            call.dynamic("a word only known at run time may be of=")
    if blocks >= 2**30 and call.changes:
        call.mark("unknown", "may fill the disk")
    return ANY_WORD


def _mark_emptied(call: ProgramCall, value: str) -> None:
    filled = any(word in ("if=/dev/zero", "if=/dev/urandom", "if=/dev/null") for word in call.argv)
    if filled and not paths.discards_writes(call.path(value)):
        call.mark("delete", f"overwrites {display_text(value)}")


def truncate(call: ProgramCall, entry: ProgramEntry) -> str:
    found = _parse_file_arguments(call, entry)
    for word in found.words:
        call.writes(word)
        call.deletes(word, why=f"cuts {display_text(word)}")
    if not found.words:
        call.mark("delete", "truncate")
    return ""


def rsync(call: ProgramCall, entry: ProgramEntry) -> str:
    """rsync: a dry run reads, a custom transport runs code, --delete removes files."""
    found = _parse_file_arguments(call, entry)
    far = any(re.match(r"[^/]*:|rsync://", word) for word in found.words)
    for option in found.values("-e", "--rsh", "--rsync-path"):
        if not re.fullmatch(r"ssh(?: -[pi] \S+| -o [A-Za-z]+=(?:no|yes|\d+))*", option):
            call.dynamic("rsync runs a transport of the caller's choice")
            call.shell(option)
    if found.has("-n", "--dry-run"):
        call.mark("network-read" if far else "read", "rsync only says what it would do")
        return ANY_WORD
    apply_table(call, entry)
    if far:
        call.mark("network-out", "rsync with another machine")
    _judge_rsync(call, found)
    return ANY_WORD


def _judge_rsync(call: ProgramCall, found: ParsedArguments) -> None:
    for word in found.words[:-1]:
        call.reads(word)
        if found.has("--remove-source-files"):
            call.deletes(word, recursive=True)
    whole = found.has("-r", "-a", "--recursive", "--archive", "--files-from")
    for word in found.words[-1:]:
        call.writes(word, tree=whole)
        if whole or found.has("-l", "--links"):
            call.scope.unpacked.add(call.path(word))
        if any(name.startswith("--del") for name in found.names()):
            why = f"rsync removes what is not in the source: {display_text(word)}"
            call.deletes(word, recursive=True, why=why)


_FIND_RUN_ACTIONS = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
_FIND_WRITE_ACTIONS = frozenset({"-fprint", "-fprint0", "-fls", "-fprintf"})


def find(call: ProgramCall, entry: ProgramEntry) -> str:
    """Roots first, then the expression."""
    words = call.argv[1:]
    call.flags = tuple(word for word in words if word.startswith("-"))
    roots = _find_roots(words)
    for root in roots:
        call.names(root)
    call.mark("read", "find looks for files")
    unknown = any(starts_unknown(word) or starts_with_glob(word) for word in words)
    if unknown or ANY_WORDS in words or call.doubtful:
        call.dynamic("a word only known at run time may be -delete or -exec")
    _judge_find_expression(call, words, roots)
    if "-printf" in words or "-ls" in words:
        return ANY_WORD
    return "\n".join(_found_path(root, _found_names(words)) for root in roots) + "\n"


def _find_roots(words: list[str]) -> list[str]:
    roots = []
    for word in words:
        if word in ("-H", "-L", "-P") or word.startswith("-O"):
            continue
        if word.startswith("-") or word in ("(", "!", ")"):
            break
        roots.append(word)
    return roots or ["."]


def _judge_find_expression(call: ProgramCall, words: list[str], roots: list[str]) -> None:
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        if word == "-delete":
            for root in roots:
                call.deletes(
                    _found_path(root, _found_names(words)),
                    recursive=_finds_everything(words),
                    why=f"find -delete below {display_text(root)}",
                )
        elif word in _FIND_WRITE_ACTIONS and at < len(words):
            call.writes(words[at])
        elif word in ("-files0-from",):
            call.dynamic("find takes its roots from a file")
        elif word in _FIND_RUN_ACTIONS:
            end = next((i for i in range(at, len(words)) if words[i] in (";", "+")), len(words))
            for root in roots:
                below = _found_path(root, _found_names(words))
                call.run([one.replace("{}", below) for one in words[at:end]])
            at = end


def _found_path(root: str, end: str) -> str:
    return f"{root.rstrip('/')}/{end}"


def _found_names(words: list[str]) -> str:
    """The name pattern of the files to find, if the expression has one."""
    if _finds_everything(words):
        return GLOB_STAR
    for word, value in pairwise(words):
        if word in ("-name", "-iname") and is_fully_known(value):
            return f"{SYSTEM_NAME}/{with_live_globs(value)}"
    return SYSTEM_NAME


def _finds_everything(words: list[str]) -> bool:
    """Return whether no test restricts the files."""
    pairs = pairwise([*words, ""])
    return not any(
        word in _FIND_FILTERS and value not in ("*", "*.*", "?*") for word, value in pairs
    )


_FIND_FILTERS = word_set(
    "-name -iname -path -ipath -regex -iregex -mtime -mmin -size -empty -newer -user -ctime -atime"
    " -amin -cmin -maxdepth -perm -inum -lname -nouser"
)


def fd(call: ProgramCall, entry: ProgramEntry) -> str:
    """`fd -x cmd` runs commands, all else only reads."""
    words = call.argv[1:]
    cut = next((i for i, word in enumerate(words) if _FD_RUN_OPTION.match(word)), None)
    if cut is None:
        apply_table(call, entry)
        return ANY_WORD
    roots = [word for word in words[:cut] if word[:1] in "/~."]
    call.run(
        [*words[cut + 1 :], *(f"{root.rstrip('/')}/{GLOB_STAR}" for root in roots), SYSTEM_NAME]
    )
    return ANY_WORD


_FD_RUN_OPTION = re.compile(r"-[A-Za-z]*[xX]\Z|--exec(?:-batch)?(?:=|\Z)")
