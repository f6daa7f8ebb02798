"""Programs that pack and unpack archives, or print the files in them."""

import re
from fnmatch import fnmatchcase

from hermes.policy.commands.calls import ProgramCall
from hermes.policy.commands.effects import word_set
from hermes.policy.commands.placeholders import (
    ANY_WORD,
    display_text,
    has_untrusted_text,
    literal_text,
)
from hermes.policy.commands.tables import ParsedArguments, ProgramEntry, parse_arguments
from hermes.policy.programs.table_effects import apply_table


def unzip(call: ProgramCall, entry: ProgramEntry) -> str:
    """unzip: extracts into one folder; `:` would let the archive choose another."""
    found = parse_arguments(call.argv[1:], entry.grammar)
    call.flags = tuple(found.names())
    apply_table(call, entry)
    if found.has("-p", "-c"):
        _judge_printed_members(call, found.words[1:])
    if "write" in call.effects:
        _mark_unpacked(call, found.value("-d") or ".")
    if found.has("-:"):
        call.dynamic("the archive may write outside of the folder")
    return ANY_WORD


def zipgrep(call: ProgramCall, entry: ProgramEntry) -> str:
    """zipgrep: a pattern, an archive, then files in it."""
    apply_table(call, entry)
    _judge_printed_members(call, parse_arguments(call.argv[1:], entry.grammar).words[2:])
    return ANY_WORD


_SECRET_MEMBERS = word_set(".env a.env server.key server.pem id_rsa .netrc .pgpass credentials")
"""Examples that a wildcard may find."""


def _judge_printed_members(call: ProgramCall, members: list[str]) -> None:
    """Files of an archive whose content is printed; only names that are given are known."""
    if not members:
        call.mark("secret-read", "prints all files of an archive, secrets included; name the file")
    for word in members:
        name = literal_text(word).rpartition("/")[2]
        wild = any(fnmatchcase(each, name) for each in _SECRET_MEMBERS) or has_untrusted_text(word)
        if wild or call.analyst.classifier.is_secret(call.path(word)):
            call.mark("secret-read", f"prints {display_text(word)} of an archive")


def _mark_unpacked(call: ProgramCall, folder: str) -> None:
    call.writes(folder, "unpacks files", tree=True)
    call.scope.unpacked.add(call.path(folder))


def tar(call: ProgramCall, entry: ProgramEntry) -> str:
    """tar: one letter decides whether it lists, extracts or writes."""
    words = call.argv[1:]
    if words and not words[0].startswith("-") and re.fullmatch(r"[a-zA-Z]+", words[0]):
        words = _old_style_options(words)
    found = parse_arguments(words, entry.grammar)
    call.argv = [call.argv[0], *words]
    letters = found.names()
    apply_table(call, entry)
    file = found.value("-f", "--file") or ""
    if file and ":" in file and not found.has("--force-local"):
        call.mark("network-out", f"{display_text(file)} is on another machine")
    if letters & {"-P", "--absolute-names"} and letters & {"-x", "--extract", "--get"}:
        call.mark("unknown", "the archive chooses where its files go")
    if letters & {"-t", "--list", "-d", "--diff", "--compare"}:
        call.reads(file or "-")
        return ANY_WORD
    if letters & {"-x", "--extract", "--get"}:
        if letters & {"-O", "--to-stdout"}:
            _judge_printed_members(call, found.words)
        else:
            _mark_unpacked(call, found.value("-C", "--directory") or ".")
        if found.has("--transform", "--xform") or (call.program == "bsdtar" and found.has("-s")):
            call.mark("secret-read", "gives other names to files of the archive, also to secrets")
        return ANY_WORD
    if letters & {"-c", "--create", "-r", "--append", "-u", "--update", "-A", "--delete"}:
        _judge_archive(call, found, file)
        return ANY_WORD
    call.mark("unknown", "tar without a letter that says what to do")
    return ANY_WORD


def _judge_archive(call: ProgramCall, found: ParsedArguments, file: str) -> None:
    for word in found.words:
        call.reads(word)
        if call.analyst.classifier.may_contain_secrets(call.path(word)):
            call.mark("secret-read", "packs a tree with secrets in it")
        if found.has("--remove-files"):
            call.deletes(word, recursive=True)
    if file and file != "-":
        call.writes(file)


def _old_style_options(words: list[str]) -> list[str]:
    """`tar xfC a b`: values follow in the order of the letters."""
    letters, rest = words[0], words[1:]
    changed = []
    for letter in letters:
        changed.append("-" + letter)
        if letter in "fCTXIbLNKVFHg" and rest:
            changed.append(rest.pop(0))
    return [*changed, *rest]
