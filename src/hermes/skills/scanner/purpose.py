"""What a skill says it is for: the measure of everything that it turns out to do."""

import re
from collections.abc import Sequence

from hermes.core.messages import Value
from hermes.skills.scanner.finding import Entry
from hermes.skills.scanner.hidden_text import plain
from hermes.skills.scanner.signs import signs

_FENCE = re.compile(r"^[ \t]*(`{3,}|~{3,})[^\n]*\n.*?^[ \t]*\1", re.DOTALL | re.MULTILINE)
_HEAD = re.compile(r"\A---\n(.*?)\n---", re.DOTALL)
_TITLE = re.compile(r"^#{1,4} (.+)$", re.MULTILINE)
_HEADING = re.compile(
    r"^(?:name|description|title|when[_-]to[_-]use)\s*:\s*(.*(?:\n[ \t]+.*)*)", re.M
)
_SECOND = frozenset({"co", "com", "org", "net", "ac", "gov", "edu"})
_LETS = frozenset({"example", "internal", "local", "herokuapp", "workers", "vercel", "netlify",
                   "pages", "github", "gitlab", "ngrok", "web", "appspot", "cloudfront", "onrender",
                   "glitch", "repl", "fly"})  # fmt: skip
"""Below these, names are given to anybody: `github.io` is not GitHub."""
_ALSO = {"githubusercontent": "github", "amazonaws": "aws", "googleapis": "google",
         "telegram": "telegram", "discordapp": "discord", "atlassian": "jira",
         "windows": "azure", "microsoftonline": "microsoft"}  # fmt: skip


class Purpose(Value, kw_only=True, frozen=True):
    short: str = ""
    """Name, description and headings."""
    prose: str = ""
    """All that SKILL.md says outside code."""
    whole: str = ""
    """All of SKILL.md and the other texts, code included."""

    def owns_up_to(self, deed: str, *, shortly: bool = False) -> bool:
        """Whether the text speaks of such a thing; `shortly`: where nobody overlooks it."""
        return bool(signs("purpose", deed)[0].pattern.search(self.short if shortly else self.prose))

    def names(self, host: str, *, in_code: bool = True) -> bool:
        """The host itself, or the word by which people know whose it is."""
        host = host.casefold()
        if host in (self.whole if in_code else self.prose):
            return True
        label = _label(host)
        if len(label) < 3:
            return False
        spoken = re.escape(label).replace(r"\-", r"[\s_-]?")
        return bool(re.search(rf"\b{spoken}", self.prose)) or self._begins(label)

    def _begins(self, label: str) -> bool:
        """`openweather` in name, description or headings speaks of `openweathermap`."""
        words = re.findall(r"[a-z]{7,}", self.short)
        return any(label.startswith(word) and len(label) - len(word) <= 4 for word in words)

    def speaks_of(self, host: str) -> bool:
        """Whose host it is stands in name, description or a heading."""
        label = _label(host.casefold())
        spoken = re.escape(label).replace(r"\-", r"[\s_-]?")
        return host.casefold() in self.short or (
            len(label) > 2 and bool(re.search(rf"\b{spoken}", self.short))
        )


def _label(host: str) -> str:
    """The word by which people know whose a host is: `acme` of `api.acme.co.uk`."""
    parts = host.split(".")
    if len(parts) < 2 or host.replace(".", "").isdigit():
        return ""
    at = -3 if len(parts) > 2 and parts[-2] in _SECOND else -2
    label = parts[at]
    if label in _LETS and not (label in ("github", "gitlab") and parts[-1] == "com"):
        return ""
    return _ALSO.get(label, label)


def purpose_of(entries: Sequence[Entry]) -> Purpose:
    own = next((plain(entry.text) for entry in entries if entry.path == "SKILL.md"), "").casefold()
    head = _HEAD.search(own)
    told = " ".join(_HEADING.findall(head[1])) if head else ""
    bare = _FENCE.sub("\n", own[head.end() :] if head else own)
    texts = [
        each.text.casefold() for each in entries if each.path.endswith((".md", ".txt", ".rst"))
    ]
    titles = "\n".join(_TITLE.findall(bare))
    short = re.sub(r"[-_]", " ", told) + "\n" + told + "\n" + titles
    return Purpose(short=short, prose=f"{told}\n{bare}", whole="\n".join(texts)[: 1 << 20])
