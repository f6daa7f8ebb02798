"""Programs that move, remove, overwrite or unlock files: what exactly decides how bad it is."""

import re
from posixpath import basename

from hermes.policy.commands import paths
from hermes.policy.commands.calls import Call
from hermes.policy.commands.generic import by_table
from hermes.policy.commands.marks import ANY, FOREIGN, LOOSE, NAME, SOME, shown
from hermes.policy.commands.options import Arguments, split
from hermes.policy.commands.tables import Program


def _arguments(call: Call, entry: Program) -> Arguments:
    found = split(call.argv[1:], entry.grammar)
    call.flags = tuple(found.names())
    return found


def remove(call: Call, entry: Program) -> str:
    found = _arguments(call, entry)
    recursive = found.has("-r", "-R", "--recursive") or call.program in ("shred", "srm", "wipe")
    recursive = recursive or any(name.startswith("--r") for name in found.names())
    for word in found.words:
        unset = word in (ANY, LOOSE) or word[:2] in (ANY + "/", LOOSE + "/")
        call.deletes(word, recursive=recursive)
        if recursive and unset and SOME not in word:
            call.irreversible(f"{shown(word)} may be any folder, / among them")
    if not found.words:
        call.mark("delete", f"{call.program} without a file")
    if found.has("--no-preserve-root"):
        call.wipe("--no-preserve-root")
    return ""


def move(call: Call, entry: Program) -> str:
    found = _arguments(call, entry)
    target = found.value("-t", "--target-directory")
    sources = found.words if target else found.words[:-1]
    for word in sources:
        path = call.names(word)
        call.mark("write", f"moves {shown(path)}")
        call.changes.append(path)
        for place in call.analyst.places.both(path):
            if call.analyst.places.ours(place, tree=True):
                call.own(place)
            if call.analyst.places.sacred(place):
                call.wipe(f"{shown(place)} is a tree of the system")
            elif call.analyst.places.dear(place):
                call.irreversible(f"{shown(place)} is part of the system")
    for word in _landing(call, sources, target or (found.words or [ANY])[-1]):
        call.writes(word)
        if call.path(word) == "/dev/null":
            call.mark("delete", "moved to nowhere")
            call.irreversible("moved to nowhere")
    return ""


def copy(call: Call, entry: Program) -> str:
    found = _arguments(call, entry)
    target = found.value("-t", "--target-directory")
    linked = found.has("-l", "--link", "-s", "--symbolic-link") and call.program == "cp"
    for word in found.words if target else found.words[:-1]:
        call.reads(word)
        if linked:
            call.changes.append(call.path(word))
        if call.path(word) == "/dev/null" and found.words:
            call.deletes(found.words[-1], why="emptied by copying /dev/null over it")
    _mode(call, found.value("-m", "--mode") or "")
    sources = found.words if target else found.words[:-1]
    for word in _landing(call, sources, target or (found.words or [ANY])[-1]):
        call.writes(word)
    whole = found.has("-r", "-R", "-a", "--recursive", "--archive")
    if whole and any(call.analyst.places.harbours(call.path(word)) for word in found.words[:-1]):
        call.mark("secret-read", "copies a tree with secrets in it")
    if call.program == "install" and found.has("-d", "--directory"):
        for word in found.words:
            call.writes(word)
    return ""


def _landing(call: Call, sources: list[str], target: str) -> list[str]:
    """Where files end up: under their own names, when the target can only be a folder."""
    folder = target.endswith(("/", "/.")) or call.path(target) in ("/tmp", "/var/tmp")
    if not folder or not sources or not all(basename(one.rstrip("/")) for one in sources):
        return [target]
    return [f"{target.rstrip('/')}/{basename(one.rstrip('/'))}" for one in sources]


def scratch(call: Call, entry: Program) -> str:
    """mktemp: in the folder for such files, unless it is told another place."""
    found = _arguments(call, entry)
    folder = found.value("-p", "--tmpdir")
    template = found.words[0] if found.words else "tmp.XXXXXXXXXX"
    inside = not found.words or found.has("-t", "-p", "--tmpdir")
    if not found.has("-u", "--dry-run"):
        template += found.value("--suffix") or ""
        call.writes(f"{folder or '/tmp'}/{template}" if inside else template)
    return NAME


def pieces(call: Call, entry: Program) -> str:
    """split: the second word is how the names of the pieces begin."""
    found = _arguments(call, entry)
    by_table(call, entry)
    call.writes((found.words[1] if len(found.words) > 1 else "x") + "aa")
    return ANY


def unpack(call: Call, entry: Program) -> str:
    """unzip: everything goes below one folder; `:` would let the archive choose another."""
    found = _arguments(call, entry)
    by_table(call, entry)
    if "write" in call.effects:
        _unpacked(call, found.value("-d") or ".")
    if found.has("-:"):
        call.dynamic("the archive may write outside of the folder")
    return ANY


def _unpacked(call: Call, folder: str) -> None:
    call.writes(folder, "unpacks files")
    call.scope.unpacked.add(call.path(folder))


def allocate(call: Call, entry: Program) -> str:
    """fallocate: a disk that is full hurts everything on it."""
    found = _arguments(call, entry)
    by_table(call, entry)
    if _gibibytes(found.value("-l", "--length") or "") >= 1:
        call.mark("unknown", "may fill the disk")
    return ""


_SIZE = re.compile(r"(\d+)([KMGTPE]?)(?:i?B)?\Z", re.IGNORECASE)


def _gibibytes(size: str) -> float:
    """Infinite where the size is only known at run time."""
    found = _SIZE.match(size)
    if found is None:
        return 0.0 if not size else float("inf")
    return (
        int(found[1]) * 1024.0 ** ("KMGTPE".find(found[2].upper()) + 1 if found[2] else 0) / 2**30
    )


def link(call: Call, entry: Program) -> str:
    found = _arguments(call, entry)
    for word in found.words:
        path = call.path(word)
        if call.analyst.places.ours(path, tree=True):
            call.own(path)
        if call.analyst.places.secret(path):
            call.mark("secret-read", f"a second name for {shown(path)}")
    target = found.value("-t", "--target-directory")
    call.writes(target or (found.words[-1] if found.words else ANY))
    for word in found.words if target else found.words[:-1]:
        # Whatever is done to the new name is done to the old one.
        call.changes.append(call.names(word))
    return ""


def rights(call: Call, entry: Program) -> str:
    """chmod, chown, chgrp, chattr, setfacl, setcap."""
    call.argv = [
        word.replace("-", "=", 1) if _TAKES.fullmatch(word) else word for word in call.argv
    ]
    found = _arguments(call, entry)
    words = found.words
    if found.value("--reference") is None and call.program != "setfacl":
        if words:
            _mode(call, words[0])
        words = words[1:]
    recursive = found.has("-R", "--recursive")
    for word in words:
        call.writes(word, f"{call.program} changes who may use {shown(call.path(word))}")
        path = call.path(word)
        worst = paths.emptied(path) if FOREIGN.search(path) else path
        if recursive and call.analyst.places.ours(path, tree=True):
            call.own(path)
        if recursive and call.analyst.places.sacred(worst):
            call.irreversible(f"rights of all of {shown(path)} are lost")
    call.mark("write", f"{call.program} changes rights")
    if call.program in ("setcap", "chattr"):
        call.mark("privilege", f"{call.program} changes what the kernel allows")
    return ""


_TAKES = re.compile(r"-[rwxXst]+(?:,[ugoa]*[-+=][rwxXst]*)*")
"""`chmod -x file`: what looks like an option takes rights away."""


def _mode(call: Call, mode: str) -> None:
    if re.fullmatch(r"[0-7]*[4-7][0-7]{3}|[ugoa]*[+=][rwxXt]*s.*|.*[+=,][rwxX]*s[rwxXt]*", mode):
        call.mark("privilege", "a file that runs with its owner's rights")


def convert(call: Call, entry: Program) -> str:
    """`dd if=… of=…`."""
    call.mark("read", "dd copies")
    blocks = 1.0
    for word in call.argv[1:]:
        key, equals, value = word.partition("=")
        if key == "of" and equals:
            call.writes(value)
            if paths.emptied(call.path(value)) == "/dev":
                call.wipe("the device to overwrite is only known at run time")
            _emptied(call, value)
        elif key in ("count", "bs") and equals:
            blocks *= _gibibytes(value) * 2**30
        elif key == "if" and equals:
            call.reads(value)
        elif FOREIGN.match(word[:1]):
            call.dynamic("a word only known at run time may be of=")
    if blocks >= 2**30 and call.changes:
        call.mark("unknown", "may fill the disk")
    return ANY


def _emptied(call: Call, value: str) -> None:
    filled = any(word in ("if=/dev/zero", "if=/dev/urandom", "if=/dev/null") for word in call.argv)
    if filled and not paths.nowhere(call.path(value)):
        call.mark("delete", f"overwrites {shown(value)}")


def empty(call: Call, entry: Program) -> str:
    found = _arguments(call, entry)
    for word in found.words:
        call.writes(word)
        call.deletes(word, why=f"cuts {shown(word)}")
    if not found.words:
        call.mark("delete", "truncate")
    return ""


def archive(call: Call, entry: Program) -> str:
    """tar: one letter says whether it lists, reads or writes."""
    words = call.argv[1:]
    if words and not words[0].startswith("-") and re.fullmatch(r"[a-zA-Z]+", words[0]):
        words = _old_style(words)
    found = split(words, entry.grammar)
    call.argv = [call.argv[0], *words]
    letters = found.names()
    by_table(call, entry)
    file = found.value("-f", "--file") or ""
    if file and ":" in file and not found.has("--force-local"):
        call.mark("network-out", f"{shown(file)} is on another machine")
    if letters & {"-P", "--absolute-names"} and letters & {"-x", "--extract", "--get"}:
        call.mark("unknown", "the archive chooses where its files go")
    if letters & {"-t", "--list", "-d", "--diff", "--compare"}:
        call.reads(file or "-")
        return ANY
    if letters & {"-x", "--extract", "--get"}:
        if not letters & {"-O", "--to-stdout"}:
            _unpacked(call, found.value("-C", "--directory") or ".")
        return ANY
    if letters & {"-c", "--create", "-r", "--append", "-u", "--update", "-A", "--delete"}:
        _packed(call, found, file)
        return ANY
    call.mark("unknown", "tar without a letter that says what to do")
    return ANY


def _packed(call: Call, found: Arguments, file: str) -> None:
    for word in found.words:
        call.reads(word)
        if call.analyst.places.harbours(call.path(word)):
            call.mark("secret-read", "packs a tree with secrets in it")
        if found.has("--remove-files"):
            call.deletes(word, recursive=True)
    if file and file != "-":
        call.writes(file)


def _old_style(words: list[str]) -> list[str]:
    """`tar xfC a b`: values follow in the order of the letters."""
    letters, rest = words[0], words[1:]
    changed = []
    for letter in letters:
        changed.append("-" + letter)
        if letter in "fCTXIbLNKVFHg" and rest:
            changed.append(rest.pop(0))
    return [*changed, *rest]


def synchronise(call: Call, entry: Program) -> str:
    """rsync: a dry run looks, a transport of one's own runs code, --delete loses."""
    found = _arguments(call, entry)
    far = any(re.match(r"[^/]*:|rsync://", word) for word in found.words)
    for option in found.values("-e", "--rsh", "--rsync-path"):
        if not re.fullmatch(r"ssh(?: -[pi] \S+| -o [A-Za-z]+=(?:no|yes|\d+))*", option):
            call.dynamic("rsync runs a transport of the caller's choice")
            call.shell(option)
    if found.has("-n", "--dry-run"):
        call.mark("network-read" if far else "read", "rsync only says what it would do")
        return ANY
    by_table(call, entry)
    if far:
        call.mark("network-out", "rsync with another machine")
    _synchronised(call, found)
    return ANY


def _synchronised(call: Call, found: Arguments) -> None:
    for word in found.words[:-1]:
        call.reads(word)
        if found.has("--remove-source-files"):
            call.deletes(word, recursive=True)
    for word in found.words[-1:]:
        call.writes(word)
        if any(name.startswith("--del") for name in found.names()):
            why = f"rsync removes what is not in the source: {shown(word)}"
            call.deletes(word, recursive=True, why=why)
