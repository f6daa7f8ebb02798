"""Parts of a rendered page, and what differs between two versions of it.

In a template, `<!--part-->` and `<!--/part-->` enclose one element with an id; parts may be inside
parts. A browser that has one version of a page is sent only the parts that differ. The marks
themselves are never sent.
"""

import hashlib
import html
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from msgspec import Struct

_MARK = re.compile(r"<!--(/?)part-->")
_FIRST_ID = re.compile(r'\s*<[a-z0-9]+(?:\s[^>]*?)?\sid="([^"]+)"')
_TITLE = re.compile(r"<title>(.*?)</title>", re.DOTALL)
_KEPT_BY_SCRIPT = re.compile(r"(<time [^>]*data-(?:ago|since|left)[^>]*>)[^<]*")
"""Times that the browser itself keeps current: their text is no difference."""
_CHILDREN = "\0"
DIGEST_BYTES = 8

Groups = tuple[tuple[str, ...], ...]
"""The parts inside a part, by id: each group is a list of elements side by side."""


@dataclass(frozen=True)
class PartFrame:
    digest: str
    """Of its HTML without the parts inside it."""
    groups: Groups


@dataclass(frozen=True)
class PageVersion:
    """One version of a page: small enough to be remembered for each browser."""

    version: str
    title: str
    roots: Groups
    parts: Mapping[str, PartFrame]


class PagePatch(Struct, frozen=True, omit_defaults=True, rename={"base": "from", "version": "to"}):
    """The difference between two versions of a page."""

    base: str
    """The version that it applies to; empty: any."""
    version: str
    title: str = ""
    """Empty when it is the same."""
    replaced: dict[str, str] = {}
    """HTML of changed and new parts, by id."""
    removed: list[str] = []
    ordered: list[list[str]] = []
    """Groups that have gained or lost a part, or are in another order: their ids."""


@dataclass(frozen=True)
class RenderedPage:
    """A page for a browser, with its parts."""

    outline: PageVersion
    chunks: Sequence[str]
    """The HTML without marks."""
    spans: Mapping[str, tuple[int, int]]
    """Which chunks make up a part."""

    @property
    def html(self) -> str:
        """The whole page, which names its version."""
        version = f'data-version="{self.outline.version}"'
        return "".join(self.chunks).replace('data-version=""', version, 1)

    def part_html(self, id: str) -> str:
        first, end = self.spans[id]
        return "".join(self.chunks[first:end])

    def patch_from(self, known: PageVersion | None) -> PagePatch:
        """Return what a browser with the known version lacks; without one, every part."""
        ours = self.outline
        changes = _PatchBuilder(self, known.parts if known else {})
        if known is None or known.roots != ours.roots:
            changes.replaced = {id: self.part_html(id) for group in ours.roots for id in group}
        else:
            for group in ours.roots:
                for id in group:
                    changes.compare(id)
        return PagePatch(
            base=known.version if known else "",
            version=ours.version,
            title="" if known and known.title == ours.title else ours.title,
            replaced=changes.replaced,
            removed=changes.removed,
            ordered=changes.ordered,
        )


@dataclass
class _PatchBuilder:
    page: RenderedPage
    known: Mapping[str, PartFrame]
    replaced: dict[str, str] = field(default_factory=dict)
    removed: list[str] = field(default_factory=list)
    ordered: list[list[str]] = field(default_factory=list)

    def compare(self, id: str) -> None:
        old, new = self.known.get(id), self.page.outline.parts[id]
        if old is None or not self._is_same_frame(old, new):
            self.replaced[id] = self.page.part_html(id)
            return
        for before, after in zip(old.groups, new.groups, strict=True):
            if before != after:
                self.ordered.append(list(after))
                self.removed += [each for each in before if each not in after]
            for each in after:
                self.compare(each)

    def _is_same_frame(self, old: PartFrame, new: PartFrame) -> bool:
        """Return whether only parts inside it differ, and none has come from somewhere else."""
        if old.digest != new.digest or len(old.groups) != len(new.groups):
            return False
        return all(
            each in before or each not in self.known
            for before, after in zip(old.groups, new.groups, strict=True)
            for each in after
        )


@dataclass
class _OpenPart:
    """A part whose end has not been read yet."""

    first_chunk: int
    id: str = ""
    frame: list[str] = field(default_factory=list)
    groups: list[list[str]] = field(default_factory=list)

    def add_text(self, text: str) -> None:
        if not (text.isspace() and self.frame and self.frame[-1] == _CHILDREN):
            self.frame.append(text)

    def add_child(self, id: str) -> None:
        if self.frame and self.frame[-1] == _CHILDREN:
            self.groups[-1].append(id)
        else:
            self.frame.append(_CHILDREN)
            self.groups.append([id])

    def close(self) -> PartFrame:
        text = _KEPT_BY_SCRIPT.sub(r"\1", "".join(self.frame))
        return PartFrame(_digest(text), tuple(map(tuple, self.groups)))


def split_page(text: str) -> RenderedPage:
    """Split a rendered template at its marks. A part without an id is a mistake of the template."""
    chunks: list[str] = []
    parts: dict[str, PartFrame] = {}
    spans: dict[str, tuple[int, int]] = {}
    stack = [_OpenPart(0)]
    for number, piece in enumerate(_MARK.split(text)):
        if number % 2 == 0:
            if not piece:
                continue
            if not stack[-1].id and len(stack) > 1:
                found = _FIRST_ID.match(piece)
                assert found is not None, f"a part without an id: {piece[:80]}"
                stack[-1].id = found[1]
            stack[-1].add_text(piece)
            chunks.append(piece)
        elif piece:
            part = stack.pop()
            parts[part.id] = part.close()
            spans[part.id] = part.first_chunk, len(chunks)
            stack[-1].add_child(part.id)
        else:
            stack.append(_OpenPart(len(chunks)))
    assert len(stack) == 1, "a part has no end"
    title = _TITLE.search(stack[0].frame[0])
    name = html.unescape(title[1].strip()) if title else ""
    seen = [name, *(f"{id} {part.digest} {part.groups}" for id, part in parts.items())]
    roots = tuple(map(tuple, stack[0].groups))
    return RenderedPage(PageVersion(_digest("\n".join(seen)), name, roots, parts), chunks, spans)


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=DIGEST_BYTES).hexdigest()
