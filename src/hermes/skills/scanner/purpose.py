"""What a skill says it is for: the measure of everything that it turns out to do."""

import re
from collections.abc import Sequence

from hermes.core.messages import Value
from hermes.skills.scanner.finding import SkillFile
from hermes.skills.scanner.hidden_text import normalize_text
from hermes.skills.scanner.patterns import load_patterns

_CODE_FENCE = re.compile(r"^[ \t]*(`{3,}|~{3,})[^\n]*\n.*?^[ \t]*\1", re.DOTALL | re.MULTILINE)
_FRONT_MATTER = re.compile(r"\A---\n(.*?)\n---", re.DOTALL)
_HEADING_LINE = re.compile(r"^#{1,4} (.+)$", re.MULTILINE)
_DESCRIPTION_FIELD = re.compile(
    r"^(?:name|description|title|when[_-]to[_-]use)\s*:\s*(.*(?:\n[ \t]+.*)*)", re.M
)
_SECOND_LEVEL_LABELS = frozenset({"co", "com", "org", "net", "ac", "gov", "edu"})
_SHARED_HOSTING_LABELS = frozenset({"example", "internal", "local", "herokuapp", "workers", "vercel", "netlify",
                   "pages", "github", "gitlab", "ngrok", "web", "appspot", "cloudfront", "onrender",
                   "glitch", "repl", "fly"})  # fmt: skip
"""Below these, names are given to anybody: `github.io` is not GitHub."""
_HOST_OWNERS = {"githubusercontent": "github", "amazonaws": "aws", "googleapis": "google",
         "telegram": "telegram", "discordapp": "discord", "atlassian": "jira",
         "windows": "azure", "microsoftonline": "microsoft"}  # fmt: skip


class DeclaredPurpose(Value, kw_only=True, frozen=True):
    summary: str = ""
    """Name, description and headings."""
    prose: str = ""
    """All that SKILL.md says outside code."""
    all_text: str = ""
    """All of SKILL.md and the other texts, code included."""

    def declares(self, action: str, *, prominently: bool = False) -> bool:
        """Whether the text speaks of such a thing; `shortly`: where nobody overlooks it."""
        return bool(
            load_patterns("purpose", action)[0].pattern.search(
                self.summary if prominently else self.prose
            )
        )

    def names_host(self, host: str, *, in_code: bool = True) -> bool:
        """The host itself, or the word by which people know whose it is."""
        host = host.casefold()
        if host in (self.all_text if in_code else self.prose):
            return True
        label = _owner_label(host)
        if len(label) < 3:
            return False
        spoken = re.escape(label).replace(r"\-", r"[\s_-]?")
        return bool(re.search(rf"\b{spoken}", self.prose)) or self._has_label_prefix(label)

    def _has_label_prefix(self, label: str) -> bool:
        """`openweather` in name, description or headings speaks of `openweathermap`."""
        words = re.findall(r"[a-z]{7,}", self.summary)
        return any(label.startswith(word) and len(label) - len(word) <= 4 for word in words)

    def names_host_prominently(self, host: str) -> bool:
        """Whose host it is stands in name, description or a heading."""
        label = _owner_label(host.casefold())
        spoken = re.escape(label).replace(r"\-", r"[\s_-]?")
        return host.casefold() in self.summary or (
            len(label) > 2 and bool(re.search(rf"\b{spoken}", self.summary))
        )


def _owner_label(host: str) -> str:
    """The word by which people know whose a host is: `acme` of `api.acme.co.uk`."""
    parts = host.split(".")
    if len(parts) < 2 or host.replace(".", "").isdigit():
        return ""
    at = -3 if len(parts) > 2 and parts[-2] in _SECOND_LEVEL_LABELS else -2
    label = parts[at]
    if label in _SHARED_HOSTING_LABELS and not (
        label in ("github", "gitlab") and parts[-1] == "com"
    ):
        return ""
    return _HOST_OWNERS.get(label, label)


def read_purpose(entries: Sequence[SkillFile]) -> DeclaredPurpose:
    own = next(
        (normalize_text(entry.text) for entry in entries if entry.path == "SKILL.md"), ""
    ).casefold()
    head = _FRONT_MATTER.search(own)
    told = " ".join(_DESCRIPTION_FIELD.findall(head[1])) if head else ""
    bare = _CODE_FENCE.sub("\n", own[head.end() :] if head else own)
    texts = [
        each.text.casefold() for each in entries if each.path.endswith((".md", ".txt", ".rst"))
    ]
    titles = "\n".join(_HEADING_LINE.findall(bare))
    short = re.sub(r"[-_]", " ", told) + "\n" + told + "\n" + titles
    return DeclaredPurpose(
        summary=short, prose=f"{told}\n{bare}", all_text="\n".join(texts)[: 1 << 20]
    )
