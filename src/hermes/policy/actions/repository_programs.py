"""Programs that the configuration of a git repository names: git runs them unasked."""

import os
import re
from collections.abc import Iterator

from msgspec.structs import replace

from hermes.policy.actions.action_effects import ActionStep

MAX_CONFIG_BYTES = 1 << 20
MAX_CONFIG_FILES = 40
_SECTION = re.compile(r'\s*\[\s*([\w.-]+)(?:\s+"((?:[^"\\]|\\.)*)")?\s*\]')
_SETTING = re.compile(r"\s*([A-Za-z][\w-]*)\s*(?:=\s*(.*?))?\s*$")
_HARMLESS_CORE = (
    "repositoryformatversion filemode bare logallrefupdates ignorecase precomposeunicode symlinks"
    " autocrlf eol safecrlf quotepath abbrev compression loosecompression sharedrepository"
    " sparsecheckout sparsecheckoutcone untrackedcache splitindex preloadindex worktree whitespace"
    " longpaths excludesfile checkstat trustctime bigfilethreshold hidedotfiles commentchar"
)
_HARMLESS = re.compile(
    rf"core\.(?:{'|'.join(_HARMLESS_CORE.split())})|core\.fsmonitor=(?:true|false|0|1)?"
    r"|remote\.[^=]*\.(?:fetch|push|tagopt|prune|prunetags|mirror|promisor|partialclonefilter"
    r"|skip\w+|gh-resolved)"
    r"|(?:remote\.[^=]*\.(?:push)?url|submodule\.[^=]*\.url)=(?!ext::|\S*::).*"
    r"|submodule\.(?:[^=]*\.)?(?:active|branch|ignore|recurse|fetchrecursesubmodules|shallow)"
    r"|submodule\.[^=]*\.update=(?:none|checkout|rebase|merge)"
    r"|(?:branch|color|advice|init|extensions|pull|push|fetch|rebase|gc|pack|index|status|safe"
    r"|rerere|receive|i18n|blame|maintenance|feature|notes|column|user|author|committer|lfs"
    r"|transfer|am|apply|checkout|clean|clone|commit|tag|log|format|grep|stash|worktree|github"
    r"|gitflow|vscode-merge-base|http)\.(?!.*(?:path|command|program|helper|cmd|proxy)(?:=|$))[^=]*"
    r"|merge\.[a-z]+|diff\.(?!external)[a-z]+|diff\.[^=.]*\.(?:xfuncname|funcname|binary|wordregex)"
    r"|filter\.lfs\.(?:clean=git-lfs clean -- %f|smudge=git-lfs smudge(?: --skip)? -- %f"
    r"|process=git-lfs filter-process(?: --skip)?|required)"
    r"|credential\.(?:[^=]*\.)?(?:usehttppath|username|helper=(?:store|cache|osxkeychain|libsecret)?)",
    re.I,
)
"""Settings, with values where these matter, that name no program."""
_HOOKS = ("reference-transaction", "post-index-change", "pre-auto-gc")
"""Hooks that verbs run which only fetch or look."""


def find_configured_program(folder: str) -> str:
    """The first setting of the repository around a folder that may run a program; or empty."""
    records = find_repository_records(folder)
    for place in records:
        for file in _config_files(place):
            if found := _program_setting(file, [MAX_CONFIG_FILES]):
                return f"{found} in {file}"
        for name in _HOOKS:
            if os.access(f"{place}/hooks/{name}", os.X_OK):
                return f"{place}/hooks/{name}"
    return ""


def mark_hook_changes(step: ActionStep) -> ActionStep:
    """A step that changes files in the folder which a repository names for its hooks."""
    for path in step.changes:
        hooks = find_hook_folder(os.path.dirname(path))  # noqa: PTH120
        if hooks and f"{path.rstrip('/')}/".startswith(f"{hooks}/"):
            why = f"privilege: {path} is a hook, which git runs with the next commit"
            return replace(step, effects=step.effects | {"privilege"}, why=(*step.why, why))
    return step


def find_hook_folder(folder: str) -> str:
    """The folder that `core.hooksPath` of the repository around a folder names; or empty."""
    records = find_repository_records(folder)
    for place in records:
        for file in (f"{place}/config", f"{place}/config.worktree"):
            for name, value in _settings(file):
                if name.lower() == "core.hookspath" and value:
                    top = find_work_tree(folder) or os.path.dirname(place)  # noqa: PTH120
                    return os.path.normpath(os.path.join(top, os.path.expanduser(value)))  # noqa: PTH111, PTH118
    return ""


def find_work_tree(folder: str) -> str:
    """The nearest folder above that is the top of a work tree; or empty."""
    place = os.path.normpath(folder)
    while place.startswith("/") and place != "/":
        if os.path.lexists(f"{place}/.git"):
            return place
        place = os.path.dirname(place)  # noqa: PTH120
    return ""


def find_repository_records(folder: str) -> list[str]:
    """The folders with the data of the repository around a folder, or that a link file names."""
    place, above = os.path.normpath(folder), ""
    if os.path.isfile(place):  # noqa: PTH113
        return _linked_records(place)
    while place.startswith("/") and place != above:
        found = os.path.join(place, ".git")  # noqa: PTH118
        if os.path.isdir(found):  # noqa: PTH112
            return _with_common_records(found)
        if os.path.isfile(found):  # noqa: PTH113
            return _linked_records(found)
        if os.path.isfile(f"{place}/HEAD") and (  # noqa: PTH113
            os.path.isdir(f"{place}/objects") or os.path.isfile(f"{place}/commondir")  # noqa: PTH112, PTH113
        ):
            return _with_common_records(place)
        above, place = place, os.path.dirname(place)  # noqa: PTH120
    return []


def _linked_records(link: str) -> list[str]:
    folder, target = os.path.dirname(link), _read(link).partition("gitdir:")[2].strip()  # noqa: PTH120
    return _with_common_records(os.path.join(folder, target)) if target else []  # noqa: PTH118


def _with_common_records(own: str) -> list[str]:
    common = _read(f"{own}/commondir").strip()
    return [own, os.path.join(own, common)] if common else [own]  # noqa: PTH118


def _config_files(records: str) -> Iterator[str]:
    """Of the repository and of those inside it: `git status` looks into submodules."""
    yield f"{records}/config"
    yield f"{records}/config.worktree"
    for count, (folder, _, names) in enumerate(os.walk(f"{records}/modules")):
        if "config" in names:
            yield f"{folder}/config"
        if count > MAX_CONFIG_FILES:
            return


def _program_setting(file: str, left: list[int]) -> str:
    left[0] -= 1
    if left[0] < 0:
        return "too many included files"
    for name, value in _settings(file):
        if name.lower().startswith("include"):
            target = os.path.join(os.path.dirname(file), os.path.expanduser(value))  # noqa: PTH111, PTH118, PTH120
            if found := _program_setting(target, left):
                return found
        elif not (_HARMLESS.fullmatch(name) or _HARMLESS.fullmatch(f"{name}={value}")):
            return name
    return ""


def _settings(file: str) -> Iterator[tuple[str, str]]:
    """The settings of one file, without those that it includes."""
    section = ""
    for line in _read(file).replace("\\\n", "").splitlines():
        if header := _SECTION.match(line):
            section = header[1] + (f".{header[2]}" if header[2] is not None else "")
            line = line[header.end() :]
        if setting := _SETTING.match(line):
            yield f"{section}.{setting[1]}", (setting[2] or "").strip('"')


def _read(file: str) -> str:
    """Empty where there is no such file."""
    try:
        with open(file, encoding="utf-8", errors="replace") as text:  # noqa: PTH123
            return text.read(MAX_CONFIG_BYTES)
    except OSError:
        return ""
