"""Commands that read files whose names are known only at run time, and what they may not read.

The policy asks about a secret file that a command names. A name that comes from a file, a wildcard
or a search through folders is checked by the kernel's supervisor when the file is opened: such a
command gets the patterns of all secret files. Commands that only read what they name get none.
"""

import posixpath
import re
from functools import cache

from hermes.policy.actions.action_effects import ActionEffects, ActionStep
from hermes.policy.commands import tables
from hermes.policy.commands.effects import word_set
from hermes.policy.programs import resource_access

_UNKNOWN_PART = re.compile(r"[…*?\[]")
_UNKNOWN_INPUT = re.compile(r"""<\s*["']?[^\s|;&<>()'"]*[$`*?\[{]""")
"""A redirection from a name that the shell expands, also of a whole loop."""
_HIDDEN_READ = re.compile(
    r"\bxargs\b[^|;&]*\s(?:-\w*a|--arg-file)|\bHOSTFILE\b|\bfile:|\bgit\b[^|;&]*\s(?:add|stage|commit"
    r"|interpret-trailers|hash-object|mailinfo|apply|stash)\b|--contents|--from-(?:env-)?file"
)
"""Ways to read a file that look like words or like the work tree."""
_LIST_OPTION = re.compile(r"--files?\d?-?from|--files?\b(?==)|--file-list")
_FOLDER_OPTION = re.compile(r"-[A-Za-z]*[rRadT]|--(?:rec|der|dir|arc|new)")
_CODE_FILES = (
    "*/site-packages/*.py*",
    "*/dist-packages/*.py*",
    "*/node_modules/*.js",
    "/usr/lib/*.py*",
    "/usr/local/lib/*.py*",
)
"""Modules may be called `credentials`."""
_NAMED_FILE_READERS = word_set(
    "cat tac nl zcat bzcat xzcat zstdcat lzcat gzcat head tail wc cksum md5sum sha1sum sha224sum"
    " sha256sum sha384sum sha512sum b2sum sum shasum md5 crc32 sort cut rev expand unexpand fold"
    " fmt pr paste join comm column tsort base32 basenc base64 factor numfmt colrm col ul look od"
    " hexdump hd strings cmp shuf uniq xxd iconv grep egrep fgrep zgrep bzgrep xzgrep zegrep zfgrep"
    " pcregrep sed gsed awk gawk mawk nawk less more most zless zmore jq gojq jaq cp install"
    " ginstall dd date ldd hostname nm objdump readelf size zipinfo unzip split tee gzip bzip2"
    " xz zstd"
)
"""They open only the files that their words name."""
_FOLDER_READERS = word_set(
    "grep egrep fgrep zgrep bzgrep xzgrep zegrep zfgrep pcregrep cp install ginstall gzip"
)
"""Those that with certain options read whatever is in a folder."""
_SILENT_SPECIALS = word_set(
    "echo printf compare cd which export set signal let shift next-option alias trap wait find"
    " printenv builtin remove move link rights truncate hostname read read-array exec init sysctl"
    " ip service"
)
"""Kinds of programs that read no file that a word names."""
_COMPUTING_SPECIALS = word_set(
    "one-liner python applet archive synchronise sqlite yq shell source loader"
)
_TREE_READERS = word_set("rg ag ack pt diff colordiff wdiff sdiff diff3 difft zdiff zcmp")
"""Programs that read whatever is in a folder."""
_LIST_WORDS = {
    "git": re.compile(r"^grep$|^--no-i"),
    "file": re.compile(r"^-[A-Za-z]*f"),
    **dict.fromkeys(("awk", "gawk", "mawk", "nawk"), re.compile(r"getline|ARG[VC]|SYMTAB")),
}
"""Words with which a program reads files that no word names."""
_FILE_PRINTERS = word_set(
    "rclone s3cmd gsutil azcopy restic borg b2 s5cmd scp sftp promtool terraform tofu cheat navi"
)
"""Clients of services that also print or copy any file."""


def refused_reads(effects: ActionEffects) -> tuple[str, ...]:
    """The patterns of secret files, if the command may read files that it does not name."""
    if not effects.command or "secret-read" in effects.effects:
        return ()
    hidden = _UNKNOWN_INPUT.search(effects.command) or _HIDDEN_READ.search(effects.command)
    if hidden or any(map(_reads_unnamed_files, effects.steps)):
        return _secret_patterns()
    return ()


def credential_programs(effects: ActionEffects) -> tuple[str, ...]:
    names = (
        name for step in effects.steps for name in (posixpath.basename(step.program), *step.via)
    )
    return tuple(dict.fromkeys(name for name in names if _logs_in(name)))


@cache
def _secret_patterns() -> tuple[str, ...]:
    """Without those for all settings of root, which programs read for themselves."""
    listed = tables.path_lists()
    secrets = [each for each in listed["secrets"] if each[0] in "/*" and "[" not in each]
    return (*secrets, *(f"!{each}" for each in (*listed["public"], *_CODE_FILES)))


def _logs_in(program: str) -> bool:
    """Whether it uses keys or passwords itself, and prints no file that it is given."""
    if program in _FILE_PRINTERS:
        return False
    return (
        bool(resource_access.access_of(program).peer)
        or program in resource_access.PRIVILEGE_PROGRAMS
        or program in resource_access.LISTENING_PROGRAMS
        or program in resource_access.REMOTE_WRAPPERS
    )


def _reads_unnamed_files(step: ActionStep) -> bool:
    program = posixpath.basename(step.program).partition(" ")[0]
    if _logs_in(program) or resource_access.REMOTE_WRAPPERS.intersection(step.via):
        return False
    entry = tables.find_program(program)
    special, role = (entry.spec.special, entry.spec.args) if entry else ("", "text")
    if special in _COMPUTING_SPECIALS or role in ("code", "script") or program in _TREE_READERS:
        return True
    if any(_LIST_OPTION.match(word) for word in step.argv) or _reads_list(program, step):
        return True
    if role == "names" or special == "cd":
        return False
    unknown = any(_UNKNOWN_PART.search(path) for path in step.paths if path not in step.changes)
    if unknown or role in ("text", "writes", "deletes") or special in _SILENT_SPECIALS:
        return unknown
    if program not in _NAMED_FILE_READERS or any("…" in word for word in step.argv[1:]):
        return True
    return program in _FOLDER_READERS and any(map(_FOLDER_OPTION.match, step.argv[1:]))


def _reads_list(program: str, step: ActionStep) -> bool:
    form = _LIST_WORDS.get(program)
    return form is not None and any(map(form.search, step.argv[1:]))
