"""Clicks on elements and types into them, as a person would where that is possible."""

from typing import Any

from hermes.core.errors import ToolError
from hermes.integrations.browser.devtools import BrowserGone, CommandRefused
from hermes.integrations.browser.page import BrowserPage, ElementReference
from hermes.integrations.browser.page_scripts import CLICK, IS_HIT_AT, TYPE_TEXT

KEYS = {
    "Enter": (13, "\r"),
    "Tab": (9, ""),
    "Escape": (27, ""),
    "Backspace": (8, ""),
    "Delete": (46, ""),
    "Space": (32, " "),
    "ArrowUp": (38, ""),
    "ArrowDown": (40, ""),
    "ArrowLeft": (37, ""),
    "ArrowRight": (39, ""),
    "PageUp": (33, ""),
    "PageDown": (34, ""),
    "Home": (36, ""),
    "End": (35, ""),
}
"""Keys by name, each with its number and the text that it writes. There are no letters: they could
end up in a password field."""

_TYPING_PROBLEMS = {
    "gone": "the element is gone: browser_snapshot shows what is there now",
    "moved": "the page changed when the field was chosen; nothing was typed",
    "fixed": "the field cannot be changed",
    "file": "files are not uploaded",
    "untyped": "nothing can be typed there; browser_click may be meant",
    "secret": "this field holds a password or a code, which a model never types: ask the person to "
    "log in, or use an account that needs none",
}


async def click_element(page: BrowserPage, element: ElementReference) -> str:
    """With the mouse where it can be hit, else by a script. Raises `ToolError`."""
    point = await find_point(page, element)
    if point is None:
        if await page.call_on(element, CLICK) == "gone":
            raise ToolError(_TYPING_PROBLEMS["gone"])
        return ""
    x, y = point
    for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
        pressed = 0 if kind == "mouseMoved" else 1
        event: dict[str, Any] = {"type": kind, "x": x, "y": y, "clickCount": pressed}
        button = {"button": "left", "buttons": pressed} if pressed else {}
        await page.call("Input.dispatchMouseEvent", {**event, **button})
    return ""


async def find_point(page: BrowserPage, element: ElementReference) -> tuple[float, float] | None:
    """Where the mouse hits it; None in frames, for options of a list, and where it is covered."""
    if element.frame != page.main_frame or "ption" in element.role:
        return None
    try:
        node = {"objectId": await page.resolve(element)}
        await page.call("DOM.scrollIntoViewIfNeeded", node)
        quads = (await page.call("DOM.getContentQuads", node)).get("quads", ())
        for quad in quads:
            x, y = sum(quad[0::2]) / 4, sum(quad[1::2]) / 4
            if abs(quad[0] - quad[4]) < 1 or abs(quad[1] - quad[5]) < 1:
                continue
            if await page.call_on(element, IS_HIT_AT, x, y) is True:
                return x, y
    except CommandRefused:  # it has no place on the page
        return None
    return None


async def type_text(page: BrowserPage, element: ElementReference, text: str, submit: bool) -> str:
    """Replaces what is in the field. One script does it all, so that nothing of it can end up in
    another field or page. Raises `ToolError`."""
    try:
        outcome = str(await page.call_on(element, TYPE_TEXT, text, submit))
    except BrowserGone:
        if page.ended:
            raise
        outcome = "moved"
    if outcome.startswith("options: "):
        raise ToolError(f"it has no choice {text!r}; {outcome[:1_000]}")
    if problem := _TYPING_PROBLEMS.get(outcome):
        raise ToolError(problem)
    if outcome == "press":
        await press_key(page, "Enter")
    return ""


async def press_key(page: BrowserPage, key: str) -> str:
    """`key` is one of `KEYS`."""
    number, text = KEYS[key]
    event = {"key": " " if key == "Space" else key, "code": key, "windowsVirtualKeyCode": number}
    down = {"type": "keyDown", "text": text} if text else {"type": "rawKeyDown"}
    await page.call("Input.dispatchKeyEvent", {**event, **down})
    await page.call("Input.dispatchKeyEvent", {**event, "type": "keyUp"})
    return ""
