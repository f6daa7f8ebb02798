"""Reads the purpose that a skill declares; its actions are compared with it."""

import re
from collections.abc import Sequence
from functools import lru_cache

from hermes.core.messages import Value
from hermes.skills.scanner.deobfuscation import normalize_text
from hermes.skills.scanner.finding import CODE_FENCE, SkillFile
from hermes.skills.scanner.patterns import load_pattern

_FRONT_MATTER = re.compile(r"\A---\n(.*?)\n---", re.DOTALL)
_HEADING_LINE = re.compile(r"^#{1,4} (.+)$", re.MULTILINE)
_DESCRIPTION_FIELD = re.compile(
    r"^(?:name|description|title|when[_-]to[_-]use)\s*:\s*(.*(?:\n[ \t]+.*)*)", re.M
)
_SECOND_LEVEL_LABELS = frozenset({"co", "com", "org", "net", "ac", "gov", "edu"})
_SHARED_HOSTING_LABELS = frozenset({
    "example", "internal", "local", "herokuapp", "workers", "vercel", "netlify", "pages", "github",
    "gitlab", "ngrok", "web", "appspot", "cloudfront", "onrender", "glitch", "repl", "fly",
})  # fmt: skip
"""Anybody can get a name under these: `github.io` does not belong to GitHub."""
_OWNED_TOP_LABELS = frozenset({"aws", "google", "microsoft", "azure", "apple", "amazon"})
"""Only their owner gives names under these."""
_HOST_OWNERS = {
    "githubusercontent": "github", "amazonaws": "aws", "googleapis": "google",
    "telegram": "telegram", "discordapp": "discord", "atlassian": "jira", "windows": "azure",
    "microsoftonline": "microsoft",
}  # fmt: skip


class DeclaredPurpose(Value, kw_only=True, frozen=True):
    summary: str = ""
    """Name, description and headings."""
    prose: str = ""
    """The text of SKILL.md outside code."""
    all_text: str = ""
    """SKILL.md and the other texts, including code."""
    chapter_titles: str = ""
    """The headings of the other texts."""

    def declares(self, action: str, *, prominently: bool = False) -> bool:
        """Return whether the text mentions the action; `prominently`: in name, description or
        headings."""
        text = self.summary if prominently else self.prose
        return _declares(text, action)

    def names_host(self, host: str, *, in_code: bool = True) -> bool:
        """Return whether the text names the host or its owner."""
        host = host.casefold()
        if host in (self.all_text if in_code else self.prose) or _names_owner(self.prose, host):
            return True
        # `openweather` in name, description or headings declares `openweathermap`.
        label, words = _owner_label(host), re.findall(r"[a-z]{7,}", self.summary)
        return any(label.startswith(word) and len(label) - len(word) <= 4 for word in words)

    def is_service(self, host: str) -> bool:
        """Return whether it is the API of a service that a heading of a text names.

        The reader of a chapter about a service expects its commands to call it.
        """
        return host.startswith("api.") and _names_owner(self.chapter_titles, host)

    def names_host_prominently(self, host: str) -> bool:
        """Return whether name, description or a heading names the owner of the host."""
        host = host.casefold()
        return host in self.summary or _names_owner(self.summary, host)


@lru_cache(maxsize=512)
def _declares(text: str, action: str) -> bool:
    return bool(load_pattern("purpose", action).search(text))


def _names_owner(text: str, host: str) -> bool:
    label = _owner_label(host)
    pattern = re.escape(label).replace(r"\-", r"[\s_-]?")
    return len(label) > 2 and bool(re.search(rf"\b{pattern}", text))


def _owner_label(host: str) -> str:
    """The name of the owner of a host: `acme` of `api.acme.co.uk`."""
    parts = host.split(".")
    if len(parts) < 2 or host.replace(".", "").isdigit():
        return ""
    if parts[-1] in _OWNED_TOP_LABELS:
        return parts[-1]
    at = -3 if len(parts) > 2 and parts[-2] in _SECOND_LEVEL_LABELS else -2
    label = parts[at]
    own = label in ("github", "gitlab") and parts[-1] == "com"
    if label in _SHARED_HOSTING_LABELS and not own:
        return ""
    return _HOST_OWNERS.get(label, label)


def read_purpose(entries: Sequence[SkillFile]) -> DeclaredPurpose:
    own = next(
        (normalize_text(entry.text) for entry in entries if entry.path == "SKILL.md"), ""
    ).casefold()
    head = _FRONT_MATTER.search(own)
    description = " ".join(_DESCRIPTION_FIELD.findall(head[1])) if head else ""
    body = CODE_FENCE.sub("\n", own[head.end() :] if head else own)
    texts = [
        each.text.casefold() for each in entries if each.path.endswith((".md", ".txt", ".rst"))
    ]
    chapters = "\n".join(_HEADING_LINE.findall(CODE_FENCE.sub("\n", "\n".join(texts))))
    titles = "\n".join(_HEADING_LINE.findall(body))
    summary = re.sub(r"[-_]", " ", description) + "\n" + description + "\n" + titles
    return DeclaredPurpose(
        summary=summary,
        prose=f"{description}\n{body}",
        all_text="\n".join(texts)[: 1 << 20],
        chapter_titles=chapters,
    )
