"""Files of a project by which a program that only looks could act.

`terraform plan` runs the provider programs below `.terraform` and asks the hosts that are named
there; `pulumi preview` runs the project itself. The author of the folder chose these, not that of
the command. The kernel keeps code that has no network from doing more than reading. These
programs need the network, so the policy looks for such files before it allows them. It trusts the
system's files in `/etc` and the user's own settings.
"""

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from glob import iglob
from itertools import islice, pairwise
from pathlib import Path, PurePosixPath
from posixpath import basename

from msgspec.structs import replace

from hermes.policy.actions.action_effects import ActionEffects, ActionStep
from hermes.policy.actions.repository_programs import find_configured_program
from hermes.policy.commands.effects import word_set
from hermes.policy.programs.resource_access import works_offline

_TERRAFORM = (".terraform/*", "*.tf", "*.tf.json", "*.tofu", "*.tofu.json")
_ANSIBLE = (
    *("ansible.cfg", "library/*", "*_plugins/*", "module_utils/*", "collections/*"),
    *("group_vars/*", "host_vars/*"),
)
_PULUMI = ("Pulumi.y*ml", "Pulumi.json")
PROJECT_FILES: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("terraform", "tofu"), _TERRAFORM),
    **dict.fromkeys(("terragrunt", "tf"), (*_TERRAFORM, "*.hcl", "*.hcl.json")),
    "infracost": (*_TERRAFORM, "*.hcl", "infracost.y*ml"),
    "packer": tuple(f"packer-{kind}-*" for kind in ("plugin", "builder", "provisioner", "post")),
    "npm": (".npmrc",),
    "cargo": (".cargo/config*", "rust-toolchain*"),
    "composer": ("composer.json",),
    "pulumi": _PULUMI,
    **dict.fromkeys(("ansible", "ansible-inventory"), _ANSIBLE),
    "helmfile": ("helmfile*",),
    "databricks": ("databricks.y*ml",),
    "supervisorctl": ("supervisord.conf", "etc/supervisord.conf"),
    "salt-call": ("Saltfile", "minion"),
    "trivy": ("trivy.y*ml",),
    **dict.fromkeys(("grype", "syft"), (".grype*", ".syft*")),
    "mycli": (".myclirc",),
    "iredis": (".iredisrc",),
    **dict.fromkeys(("clickhouse-client", "clickhouse", "ch"), ("clickhouse-client.*",)),
    **dict.fromkeys(("gh", "glab", "hub"), ()),
}
"""Of programs that may use the network when they read. The last ones run git in the folder."""
_FINDS_ABOVE = word_set("npm cargo pulumi databricks")
_RUNS_GIT = word_set("gh glab hub pulumi infracost composer")
_OBEYS_NAMED_FILES = word_set("ansible ansible-inventory helmfile terragrunt")
_HOME_SETTINGS = word_set(".npmrc .cargo/config* .myclirc .iredisrc .grype* .syft*")
_FOLDER_OPTION = re.compile(
    r"--?(?:chdir|C|c?wd|dir|d|prefix|working-dir|terragrunt-working-dir|path|p)\Z"
)
_NO_FILES: tuple[str, ...] = ()
_GLOB, _UNKNOWN = re.compile(r"[*?\[]"), "…"
_MAX_FOLDERS, _MAX_FILES, _MAX_BYTES = 200, 200, 1 << 20


def mark_unread_project(effects: ActionEffects) -> ActionEffects:
    """Says of a command on another host that such files were not looked for."""
    found = next((step for step in effects.steps if _obeys_project(step)), None)
    if found is None:
        return effects
    return replace(effects, unread=describe_unread_files(found))


def describe_unread_files(step: ActionStep) -> str:
    """Of a program on another host, whose files cannot be looked for."""
    return f"what {step.program} finds there, which was not read, can use what the command may do"


def _obeys_project(step: ActionStep) -> bool:
    """Return whether a read could become something else by files of the folder it runs in."""
    name = basename(step.program)
    return name in PROJECT_FILES and step.is_read_only and not works_offline(name, step.argv[1:])


def mark_project_files(
    step: ActionStep, folders: Sequence[str], home: str
) -> tuple[ActionStep, tuple[str, ...]]:
    """Marks a step for which there are such files; returns these files as well."""
    if not _obeys_project(step):
        return step, ()
    name, files = basename(step.program), _NO_FILES
    if unknown := _unknown_folder(step, folders):
        reason = f"what {name} finds in {unknown} is only known at run time, and {name} obeys it"
    elif files := tuple(_acting_files(name, step, folders, home)):
        more = f" and {len(files) - 1} more" if len(files) > 1 else ""
        reason = f"{name} runs or contacts what {files[0]}{more} names, which is not read here"
    else:
        return step, ()
    effects = step.effects | {"exec-dynamic"}
    return replace(step, effects=effects, why=(*step.why, f"exec-dynamic: {reason}")), files


def _unknown_folder(step: ActionStep, folders: Iterable[str]) -> str:
    if "find" in step.via:  # `-execdir`
        return "each folder"
    for before, word in pairwise(step.argv):
        option = word.partition("=")[0]
        if _UNKNOWN in word and (
            _FOLDER_OPTION.match(before)
            or (word[:1] == "-" and (_UNKNOWN in option or _FOLDER_OPTION.match(option)))
        ):
            return word
    return next((each for each in folders if _UNKNOWN in each), "")


def _acting_files(name: str, step: ActionStep, folders: Sequence[str], home: str) -> Iterator[str]:
    named = list(_expand(_named_paths(step.argv[1:], folders)))
    if name in _OBEYS_NAMED_FILES:
        yield from (each for each in named if Path(each).is_file() and not _is_trusted(each))
    places = dict.fromkeys((*_expand(folders), *named))
    if name in _FINDS_ABOVE:
        above = (str(each) for place in places for each in PurePosixPath(place).parents)
        places = dict.fromkeys((*places, *above))
    for place in [*places][:_MAX_FOLDERS]:
        if name in _RUNS_GIT and (found := find_configured_program(place)):
            yield found
        for pattern in PROJECT_FILES[name]:
            if place == home and pattern in _HOME_SETTINGS:
                continue
            for file in sorted(Path(place).glob(pattern))[:_MAX_FILES]:
                if not _is_trusted(str(file)) and _may_act(file):
                    yield from _files_below(file)


def _named_paths(words: Iterable[str], folders: Iterable[str]) -> Iterator[str]:
    """What the words may name in these folders: `dir`, `--chdir=dir`, `-Cdir`."""
    for word in words:
        value = word.partition("=")[2] if "=" in word else word[2:] if word[:1] == "-" else word
        for folder in folders if value else ():
            yield str(Path(folder, value))


def _expand(paths: Iterable[str]) -> Iterator[str]:
    for path in map(os.path.normpath, paths):
        yield from islice(iglob(path), _MAX_FOLDERS) if _GLOB.search(path) else (path,)  # noqa: PTH207 - Path.glob takes no absolute pattern


def _is_trusted(path: str) -> bool:
    return path.startswith("/etc/")


def _files_below(path: Path) -> list[str]:
    if not path.is_dir():
        return [str(path)]
    below = (f"{top}/{each}" for top, _, names in os.walk(path) for each in sorted(names))
    return [each for each, _ in zip(below, range(_MAX_FILES), strict=False)] or [str(path)]


def _may_act(file: Path) -> bool:
    if file.is_dir():
        return any(file.iterdir())
    check = next((each for end, each in _CONTENT_CHECKS.items() if file.match(end)), None)
    if check is None:
        return True
    try:
        return file.stat().st_size > _MAX_BYTES or check(file.read_text("utf-8"))
    except (OSError, ValueError, AttributeError):
        return True


_BACKEND = re.compile(r"backend|\\u", re.I)
"""Only with a server for its state does `terraform init` record one; letters may be escaped."""
_REMOTE_STATE = re.compile(r"remote_state|\\u", re.I)
"""The one source of data that asks a host without a provider program; letters may be escaped."""
_NPM_SETTING = re.compile(
    r"\s*(?:[;#].*|registry\s*=\s*https://registry\.npmjs\.org/?"
    r"|(?:save(?:-exact|-prefix)?|engine-strict|fund|audit(?:-level)?|package-lock|loglevel|progress"
    r"|legacy-peer-deps|strict-peer-dep\w*|auto-install-peers|prefer-(?:offline|dedupe)|color"
    r"|shamefully-hoist|ignore-scripts|update-notifier|lockfile-version|install-links"
    r"|node-linker|public-hoist-pattern(?:\[\])?|fetch-\w+)\s*=[^$]*)?\Z"
)


def _sets_npm(text: str) -> bool:
    return not all(map(_NPM_SETTING.match, text.splitlines()))


def _chooses_toolchain(text: str) -> bool:
    """Return whether it may name a folder with programs, not only a version."""
    return "path" in text or "/" in text or "\\" in text


def _sets_composer(text: str) -> bool:
    """Return whether the project names hosts, or code that Composer loads."""
    return not {"repositories", "scripts", "config"}.isdisjoint(json.loads(text))


_CONTENT_CHECKS: Mapping[str, Callable[[str], bool]] = {
    ".terraform/terraform.tfstate": lambda text: _BACKEND.search(text) is not None,
    ".terraform/environment": lambda text: False,  # the name of the workspace
    "*.tf": lambda text: _REMOTE_STATE.search(text) is not None,
    "*.tf.json": lambda text: _REMOTE_STATE.search(text) is not None,
    "*.tofu": lambda text: _REMOTE_STATE.search(text) is not None,
    "*.tofu.json": lambda text: _REMOTE_STATE.search(text) is not None,
    ".npmrc": _sets_npm,
    "rust-toolchain*": _chooses_toolchain,
    "composer.json": _sets_composer,
}
"""For files that are mostly harmless: whether this one may act."""
