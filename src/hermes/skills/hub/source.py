"""Reads what a person names as a source: a repository of GitHub, a git repository or a folder."""

import re
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from msgspec.structs import replace

from hermes.core.messages import Value
from hermes.skills.exchange.signed_statements import ExchangeError

SourceKind = Literal["github", "git", "folder", "site"]
COMMIT_ID = re.compile(r"[0-9a-f]{40}")
_REPOSITORY = re.compile(
    r"(?P<owner>[A-Za-z0-9][A-Za-z0-9-]{0,38})/(?P<name>[A-Za-z0-9_][\w.-]{0,99})"
    r"(?:/(?P<path>[^@]+))?(?:@(?P<ref>[\w./-]{1,200}))?"
)
_GITHUB_PAGE = re.compile(
    r"https://github\.com/(?P<owner>[\w-]+)/(?P<name>[\w.-]+?)(?:\.git)?/?"
    r"(?:/(?:tree|blob)/(?P<ref>[^/]+)(?:/(?P<path>.+?))?/?)?"
)


class SkillSource(Value, kw_only=True, frozen=True):
    kind: SourceKind
    place: str
    """`owner/name` of GitHub, the address of a git repository or site, or a folder."""
    path: str = ""
    """The folder of the skill in it; empty: wherever skills are."""
    ref: str = ""
    """A branch, tag or commit; empty: the default branch."""

    def __str__(self) -> str:
        path = f"/{self.path}" if self.path else ""
        ref = f"@{self.ref}" if self.ref else ""
        return f"{self.place}{path}{ref}"

    @property
    def publisher(self) -> str:
        """Who is responsible: a repository has no signature, so it is whom it belongs to."""
        if self.kind == "github":
            return f"github:{self.place.partition('/')[0]}"
        host = urlsplit(self.place.removeprefix("git+")).hostname
        return f"{'https' if self.kind == 'site' else 'git'}:{host}" if host else "local"

    def install_words(self, name: str) -> str:
        """Return what `hermes skills install` takes for a skill of it."""
        if self.kind == "github":
            return str(self)
        ref = f"@{self.ref}" if self.ref else ""
        return f"{self.place}{ref} {name}"

    @property
    def fixed(self) -> bool:
        """Whether it names one commit, which never changes."""
        return bool(COMMIT_ID.fullmatch(self.ref))

    def at_path(self, path: str) -> "SkillSource":
        return replace(self, path=path)


def parse_source(text: str, *, local: bool = True) -> SkillSource | None:
    """Return None for anything else: a bundle, an address of signed skills, or the name of a skill.

    `local`: a folder that exists is taken before a repository of that name.
    """
    if found := _GITHUB_PAGE.fullmatch(text):
        return _github_source(found)
    plain = text.removeprefix("git+").removeprefix("file://")
    if local and (plain.startswith(("/", ".", "~")) or Path(text).is_dir()):
        return _local_source(plain)
    if text.startswith(("git+", "git@", "ssh://")) or (
        "://" in text and re.search(r"\.git(?:@[\w./-]+)?$", text)
    ):
        address, at, ref = text.removeprefix("git+").rpartition("@")
        named = bool(at) and address.endswith(".git")
        place = address if named else text.removeprefix("git+")
        return SkillSource(kind="git", place=place, ref=ref if named else "")
    found = None if "://" in text else _REPOSITORY.fullmatch(text)
    return _github_source(found) if found else None


def _github_source(found: re.Match[str]) -> SkillSource:
    path = (found["path"] or "").strip("/").removesuffix("/SKILL.md").removesuffix("SKILL.md")
    if ".." in path.split("/"):
        raise ExchangeError(f"{found[0]!r}: the path leads out of the repository")
    place = f"{found['owner']}/{found['name']}"
    return SkillSource(kind="github", place=place, path=path, ref=found["ref"] or "")


def _local_source(plain: str) -> SkillSource | None:
    """A folder, or a git repository on this machine, also a bare one; `@REF` needs git."""
    folder = Path(plain).expanduser()
    ref = ""
    if not folder.exists() and "@" in plain:
        named, _, ref = plain.rpartition("@")
        folder = Path(named).expanduser()
    if not folder.exists():
        raise ExchangeError(f"there is no folder {plain}")
    if not folder.is_dir() or (folder / ".well-known/skills/index.json").is_file():
        return None  # a bundle, or a folder of signed skills
    git = (folder / ".git").exists() or (folder / "HEAD").is_file()
    kind: SourceKind = "git" if git else "folder"
    if ref and not git:
        raise ExchangeError(f"{folder} is not a git repository, so it has no {ref!r}")
    return SkillSource(kind=kind, place=str(folder.absolute()), ref=ref)
