"""Turns the accessibility tree of a page into lines: roles, names, values and references."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any

from hermes.core.foreign_text import strip_hidden_characters

MAX_SNAPSHOT_CHARS = 8_000
MAX_NAME_CHARS = 120
MAX_FULL_NAME_CHARS = 500
MAX_COMPARED_LINES = 2_000
MAX_DEPTH = 200
_LAST_PLAIN_CHARACTER = "\U000e0000"
"""Printable characters after it may be hidden ones."""
HIDDEN_VALUE = "[hidden]"

_ACTIVE_ROLES = frozenset(
    [
        "button",
        "link",
        "textbox",
        "searchbox",
        "checkbox",
        "radio",
        "combobox",
        "listbox",
        "option",
        "menuitem",
        "menuitemcheckbox",
        "menuitemradio",
        "tab",
        "switch",
        "slider",
        "spinbutton",
        "treeitem",
        "textarea",
        "ColorWell",
        "Date",
        "DateTime",
        "InputTime",
        "PopUpButton",
        "MenuListOption",
        "DisclosureTriangle",
    ]
)
"""Roles that a person clicks or types into."""
_TRANSPARENT_ROLES = frozenset(
    [
        "none",
        "generic",
        "InlineTextBox",
        "LineBreak",
        "RootWebArea",
        "WebArea",
        "Ignored",
        "LayoutTable",
        "LayoutTableRow",
        "LayoutTableCell",
        "presentation",
        "paragraph",
        "Section",
        "Abbr",
        "ListMarker",
        "strong",
        "emphasis",
        "code",
        "Pre",
        "mark",
        "Legend",
        "LabelText",
        "Figcaption",
        "time",
        "superscript",
        "subscript",
        "insertion",
        "deletion",
        "rowgroup",
        "DescriptionListDetail",
        "DescriptionListTerm",
    ]
)
"""Roles without meaning of their own: only what is inside them is shown."""
_FIELD_ROLES = frozenset({"textbox", "searchbox", "spinbutton", "textarea"})
_STATES = ("checked", "selected", "expanded", "pressed", "disabled", "required", "invalid")

MakeReference = Callable[[int, str, str], str]
"""Gives the reference of a node: its number in the browser, role and name."""


def render_tree(
    nodes: Sequence[Mapping[str, Any]],
    refer: MakeReference,
    secrets: Iterable[str] = (),
    *,
    full: bool = False,
) -> list[str]:
    """The lines of one frame. `secrets` are values of password fields, which are never shown."""
    by_id = {node["nodeId"]: node for node in nodes}
    children = {child for node in nodes for child in node.get("childIds", ())}
    roots = [node for node in nodes if node["nodeId"] not in children]
    hidden = tuple(filter(None, secrets))
    lines: list[str] = []
    for root in roots:
        lines += _render(root, by_id, refer, full)
    return [_hide(line, hidden) for line in _without_repeats(lines)]


def _render(
    root: Mapping[str, Any],
    by_id: Mapping[str, Mapping[str, Any]],
    refer: MakeReference,
    full: bool,
) -> Iterator[str]:
    waiting = [(root, 0, "")]
    while waiting:  # not recursive: a page may be nested deeper than Python allows
        node, depth, around = waiting.pop()
        line, text = _line(node, refer, full, around)
        if line:
            yield "  " * min(depth, 12) + line
        if line and node.get("role", {}).get("value") in _FIELD_ROLES:
            continue  # what is in a field is its value
        inner = depth + 1 if line and depth < MAX_DEPTH else depth
        waiting += [
            (by_id[child], inner, text or around)
            for child in reversed(node.get("childIds", ()))
            if child in by_id
        ]


def _line(
    node: Mapping[str, Any], refer: MakeReference, full: bool, around: str
) -> tuple[str, str]:
    """The line of a node, empty when it has none of its own, and its name."""
    role = str(node.get("role", {}).get("value", ""))
    limit = MAX_FULL_NAME_CHARS if full else MAX_NAME_CHARS
    whole = _clean(node.get("name", {}).get("value"))
    name = whole if len(whole) <= limit else f"{whole[: limit - 1]}…"
    if node.get("ignored") or role in _TRANSPARENT_ROLES:
        return "", ""
    properties = {
        each["name"]: each.get("value", {}).get("value") for each in node.get("properties", ())
    }
    if role == "StaticText":  # a name that was shown already is not repeated inside
        return ("", "") if not name or (around and whole in around) else (f'text "{name}"', "")
    number = node.get("backendDOMNodeId")
    active = role in _ACTIVE_ROLES or bool(properties.get("editable"))
    if not active and not name and role not in ("Canvas", "Iframe", "img", "image"):
        return "", ""
    parts = [role[:1].lower() + role[1:], *([f'"{name}"'] if name else [])]
    if active and isinstance(number, int):
        parts.append(f"[{refer(number, role, name)}]")
    value = _clean(node.get("value", {}).get("value"))
    if value and value != name:
        parts.append(f'= "{value[:limit]}"')
    if role == "heading" and properties.get("level"):
        parts.append(f"level {properties['level']}")
    parts += [
        state if properties[state] in (True, "true") else f"{state}={properties[state]}"
        for state in _STATES
        if properties.get(state) not in (None, False, "false", "")
    ]
    return " ".join(parts), whole


def _clean(value: object) -> str:
    text = "" if value is None else str(value)
    plain = text.isprintable() and max(text, default="") < _LAST_PLAIN_CHARACTER
    return " ".join((text if plain else strip_hidden_characters(text)).split())


def _hide(line: str, secrets: tuple[str, ...]) -> str:
    for secret in secrets:
        line = line.replace(f'= "{secret}"', f"= {HIDDEN_VALUE}")
        if len(secret) > 3:
            line = line.replace(secret, HIDDEN_VALUE)
    return f"{line.partition(' = ')[0]} = {HIDDEN_VALUE}" if ' = "•' in line else line


def _without_repeats(lines: Iterable[str]) -> Iterator[str]:
    last = ""
    for line in lines:
        if line.strip() != last.strip() or "[" in line:
            yield line
        last = line


def cut_lines(lines: Sequence[str], start: float = 0.0, limit: int = MAX_SNAPSHOT_CHARS) -> str:
    """As many lines as fit; of a long page those from the part that is scrolled to (0 to 1)."""
    size = sum(len(line) + 1 for line in lines)
    if size <= limit:
        return "\n".join(lines)
    space = limit - 160
    first, before = 0, 0
    while first < len(lines) and before < start * size and size - before > space:
        before += len(lines[first]) + 1
        first += 1
    last, used = first, 0
    while last < len(lines) and used + len(lines[last]) + 1 <= space:
        used += len(lines[last]) + 1
        last += 1
    shown = "\n".join(lines[first:last]) or lines[first][:space]
    more = "browser_scroll moves on, browser_snapshot with full=true keeps all of it"
    return f"{shown}\n[lines {first + 1} to {last} of {len(lines)}; {more}]"


def describe_difference(before: Sequence[str], after: Sequence[str]) -> str:
    """Removed and added lines; empty when there is no useful difference to show."""
    if not before or max(len(before), len(after)) > MAX_COMPARED_LINES:
        return ""
    changed: list[str] = []
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    if matcher.real_quick_ratio() < 0.3:
        return ""
    for kind, left, left_end, right, right_end in matcher.get_opcodes():
        if kind != "equal":
            changed += [f"- {line}" for line in before[left:left_end]]
            changed += [f"+ {line}" for line in after[right:right_end]]
    text = "\n".join(changed)
    whole = sum(len(line) + 1 for line in after)
    return text if len(text) < min(MAX_SNAPSHOT_CHARS, max(whole, 1)) else ""
