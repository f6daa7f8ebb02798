"""Fetches repositories from GitHub and skills from sites, through the guarded HTTP client."""

import re

import msgspec

from hermes.core.messages import Value
from hermes.plumbing.addresses import HttpAddressForbidden, guard_for
from hermes.plumbing.http_client import (
    HttpAnswer,
    HttpAnswerTooLarge,
    HttpError,
    HttpLimits,
    send_http_request,
)
from hermes.skills.exchange.index import INDEX_FILE, MAX_INDEX_BYTES, build_published_address
from hermes.skills.exchange.signed_statements import ExchangeError
from hermes.skills.format import MAX_SKILL_BYTES, MAX_SKILL_FILES, SKILL_NAME
from hermes.skills.hub.archive import MAX_ARCHIVE_BYTES, FoundSkill
from hermes.skills.hub.source import COMMIT_ID, SkillSource
from hermes.skills.scanner.finding import SkillFile

FETCH_TIMEOUT_S = 30.0
TOTAL_TIMEOUT_S = 300.0
MAX_REDIRECTS = 5
_SITE_FILE = re.compile(r"[\w-][\w. -]*(?:/[\w-][\w. -]*){0,8}")


class SiteSkill(Value, frozen=True):
    """One entry of an unsigned `/.well-known/skills/index.json`."""

    name: str
    description: str = ""
    files: tuple[str, ...] = ("SKILL.md",)


class SiteIndex(Value, frozen=True):
    skills: tuple[SiteSkill, ...]


class HubClient:
    """`api`: the address of the API of GitHub. `token`: for private repositories and more calls."""

    def __init__(self, api: str, *, token: str = "", local: tuple[str, ...] = ()) -> None:
        self._api = api.rstrip("/")
        self._token = token
        self._guard = guard_for((self._api, *local))

    async def resolve_commit(self, source: SkillSource) -> str:
        """The commit that the source means now. Raises `ExchangeError`."""
        url = f"{self._api}/repos/{source.place}/commits/{source.ref or 'HEAD'}"
        answer = await self._get(url, 4096, accept="application/vnd.github.sha")
        if answer.status in (404, 409, 422):
            what = f"{source.ref!r} in it" if source.ref else "such repository, or no access to it"
            raise ExchangeError(
                f"{source.place}: there is no {what} ({answer.status}). What is installed stays"
            )
        commit = _check_answer(url, answer).strip().decode("ascii", "replace")
        if not COMMIT_ID.fullmatch(commit):
            raise ExchangeError(f"{url} answered {_shown(answer)} instead of a commit")
        return commit

    async def fetch_archive(self, place: str, commit: str) -> bytes:
        """The files of a repository at a commit. Raises `ExchangeError`."""
        url = f"{self._api}/repos/{place}/tarball/{commit}"
        answer = await self._get(url, MAX_ARCHIVE_BYTES)
        if answer.status in (404, 410, 422):
            raise ExchangeError(f"{place}: the commit {commit[:12]} is gone ({answer.status})")
        data = _check_answer(url, answer)
        if not data.startswith(b"\x1f\x8b"):
            raise ExchangeError(f"{url} answered {_shown(answer)} instead of an archive")
        return data

    async def fetch_site_index(self, address: str) -> SiteIndex | None:
        """Return None when its index is a signed one of another Hermes. Raises `ExchangeError`."""
        url = build_published_address(address, INDEX_FILE)
        answer = await self._get(url, MAX_INDEX_BYTES)
        data = _check_answer(url, answer)
        try:
            return msgspec.json.decode(data, type=SiteIndex)
        except msgspec.ValidationError as error:
            if b'"index"' in data:
                return None
            raise ExchangeError(f"{url} is not an index of skills: {error}") from error
        except msgspec.DecodeError:
            raise ExchangeError(f"{url} answered {_shown(answer)} instead of an index") from None

    async def fetch_site_skill(self, address: str, skill: SiteSkill) -> FoundSkill:
        """All files that the index lists for it. Raises `ExchangeError`."""
        if not SKILL_NAME.fullmatch(skill.name) or len(skill.files) > MAX_SKILL_FILES:
            raise ExchangeError(f"{address} offers {skill.name!r}, which cannot be a skill")
        files: list[SkillFile] = []
        left = MAX_SKILL_BYTES
        for path in skill.files:
            if not _SITE_FILE.fullmatch(path):
                raise ExchangeError(f"{address} names the file {path!r}, which leads out of it")
            url = build_published_address(address, f"{skill.name}/{path}")
            data = _check_answer(url, await self._get(url, left))
            files.append(SkillFile(path=path, data=data))
            left = max(1, left - len(data))
        return FoundSkill(
            name=skill.name, description=skill.description, path=skill.name, files=tuple(files)
        )

    async def _get(self, url: str, max_bytes: int, *, accept: str = "*/*") -> HttpAnswer:
        limits = HttpLimits(
            timeout_s=FETCH_TIMEOUT_S,
            total_timeout_s=TOTAL_TIMEOUT_S,
            max_answer_bytes=max_bytes,
            max_redirects=MAX_REDIRECTS,
        )
        headers = {"User-Agent": "hermes-skills", "Accept": accept}
        if self._token and url.startswith(f"{self._api}/"):
            headers["Authorization"] = f"Bearer {self._token}"
        try:
            return await send_http_request("GET", url, limits, headers=headers, guard=self._guard)
        except HttpAnswerTooLarge:
            raise ExchangeError(f"{url} has more than {max_bytes:,} bytes") from None
        except HttpError as error:
            hint = ""
            if isinstance(error, HttpAddressForbidden):
                hint = "; if it is yours, name the site in skills.hubs"
            raise ExchangeError(f"{url} could not be fetched: {error}{hint}") from error


def _check_answer(url: str, answer: HttpAnswer) -> bytes:
    if answer.status == 429 or (answer.status == 403 and answer.retry_after):
        when = f" after {answer.retry_after}" if answer.retry_after else " later"
        raise ExchangeError(
            f"{url}: too many requests ({answer.status}); try again{when}, or set GITHUB_TOKEN"
        )
    if answer.status >= 300:
        raise ExchangeError(f"{url} could not be fetched: {answer.status} {answer.reason}".rstrip())
    return answer.body


def _shown(answer: HttpAnswer) -> str:
    kind = answer.content_type.partition(";")[0] or "an unknown format"
    return f"{kind} of {len(answer.body):,} bytes" if answer.body else "nothing"
