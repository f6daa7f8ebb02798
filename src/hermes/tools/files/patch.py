"""The tool `patch`: replaces a passage of a file, or applies a unified diff.

Diffs are read as models write them: line numbers are hints, the text decides.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import Annotated

import anyio
from anyio import to_thread

from hermes.core.errors import HermesError, ToolError
from hermes.core.messages import Risk, Value
from hermes.core.protocols import Environment, Tool, ToolContext
from hermes.tools.declare import about, tool
from hermes.tools.dependencies import ToolDependencies, content_digest
from hermes.tools.files.common import decode_text, explain_missing_path, printable, shell_path
from hermes.tools.files.read_write import MAX_TRACKED_BYTES
from hermes.tools.files.text_matching import (
    PassageMatch,
    closest_passages,
    find_passages,
    line_number,
    replace_passages,
)

_HUNK_HEADER = re.compile(r"@@(?:[ @]*-(\d+))?")


class DiffHunk(Value, frozen=True):
    old: str
    new: str
    line: int = 0
    """The line where it says it begins; 0 when it does not say."""


class FileDiff(Value, frozen=True):
    path: str
    hunks: tuple[DiffHunk, ...]
    creates: bool = False


def parse_diff(diff: str, path: str = "") -> list[FileDiff]:
    """Every file of a diff; `path` names the file of a diff without file names."""
    files: list[FileDiff] = []
    for start, head, hunks in _file_sections(diff.replace("\r\n", "\n").split("\n")):
        name, creates = _resolve_path(head, path, start)
        if not hunks:
            raise ToolError(f"line {start} of the diff: {name} has no hunk (a line with @@)")
        files.append(FileDiff(name, tuple(_parse_hunk(*hunk) for hunk in hunks), creates))
    if not files:
        raise ToolError("the diff is empty: it needs ---, +++ and @@ lines")
    if len({file.path for file in files}) < len(files):
        raise ToolError("the diff names a file twice: put all its hunks under one header")
    return files


_DiffSection = tuple[int, tuple[str, str] | None, list[tuple[int, str, list[str]]]]


def _file_sections(lines: list[str]) -> Iterator[_DiffSection]:
    """Per file: where it starts, its two names, and its hunks as (line, header, body)."""
    section: _DiffSection | None = None
    for number, line in enumerate(lines, start=1):
        after = lines[number] if number < len(lines) else ""
        if line.startswith("--- ") and after.startswith("+++ "):
            if section:
                yield section
            section = (number, (line[4:], after[4:]), [])
        elif line.startswith("+++ ") and section and not section[2]:
            continue
        elif _HUNK_HEADER.match(line):
            section = section or (number, None, [])
            section[2].append((number, line, []))
        elif line.startswith("diff --git "):
            if section:
                yield section
            section = None
        elif section and section[2]:
            section[2][-1][2].append(line)
    if section:
        yield section


def _resolve_path(head: tuple[str, str] | None, path: str, start: int) -> tuple[str, bool]:
    if head is None:
        if not path:
            raise ToolError(f"line {start} of the diff: a hunk without a file; give path as well")
        return path, False
    before, after = (name.split("\t")[0].strip() for name in head)
    if after == "/dev/null":
        raise ToolError(f"the diff deletes {before}; patch does not, use terminal for that")
    if before == "/dev/null":
        return after.removeprefix("b/"), True
    if before.startswith("a/") and after.startswith("b/"):
        before, after = before[2:], after[2:]
    if before != after:
        raise ToolError(f"the diff renames {before} to {after}; patch does not, use terminal")
    return after, False


def _parse_hunk(number: int, header: str, body: list[str]) -> DiffHunk:
    while body and not body[-1]:
        body.pop()  # the blank lines before the next header
    sides: dict[str, list[str]] = {"-": [], "+": []}
    last = ""
    for offset, line in enumerate(body, start=1):
        mark, text = line[:1] or " ", line[1:]
        if mark == "\\":
            for side in sides if last == " " else last:
                sides[side][-1] = sides[side][-1].removesuffix("\n")
            continue
        if mark not in " -+":
            raise ToolError(
                f"line {number + offset} of the diff begins with {mark!r}; each line of a hunk "
                "begins with a space, - or +"
            )
        for side in sides if mark == " " else mark:
            sides[side].append(f"{text}\n")
        last = mark
    old, new = "".join(sides["-"]), "".join(sides["+"])
    if old == new:
        raise ToolError(f"line {number} of the diff: this hunk changes nothing")
    match = _HUNK_HEADER.match(header)
    return DiffHunk(old, new, int(match[1] or 0) if match else 0)


_MAX_SHOWN_LINES = 30


class EditResult(Value, frozen=True):
    text: str
    summary: str
    """A short diff."""


def replace_passage(path: str, text: str, old: str, new: str, *, every: bool) -> EditResult:
    """Raises `ToolError`, with what is there, unless it is clear what to change."""
    if not old:
        raise ToolError("old is empty: say which text to replace (write_file writes a whole file)")
    if old == new:
        raise ToolError("old and new are the same: nothing to change")
    matches = find_passages(text, old, new)
    if not matches:
        raise _not_found(path, text, old)
    if len(matches) > 1 and not every:
        raise ToolError(
            f"old is found {len(matches)} times in {path}, "
            f"at lines {_line_numbers(text, matches)}. "
            "Give more lines around it, or replace_all=true."
        )
    return EditResult(replace_passages(text, matches), summarize_changes(text, matches))


def apply_hunks(path: str, text: str, hunks: Sequence[DiffHunk]) -> EditResult:
    """One after the other; a hunk that fits several positions goes where its number says."""
    summaries, drift = [], 0
    for hunk in hunks:
        match = _choose_match(path, text, hunk, drift)
        summaries.append(summarize_changes(text, [match]))
        text = replace_passages(text, [match])
        drift += hunk.new.count("\n") - hunk.old.count("\n")
    return EditResult(text, "\n".join(summaries))


def summarize_changes(text: str, matches: Sequence[PassageMatch]) -> str:
    shown: list[str] = []
    for match in matches:
        loosely = f" (found ignoring {match.how})" if match.how else ""
        line, lines = _changed_lines(text, match)
        shown += [f"@@ line {line}{loosely} @@", *lines]
        if len(shown) > _MAX_SHOWN_LINES:
            break
    more = len(shown) - _MAX_SHOWN_LINES
    rest = [f"[… and more, {len(matches)} changes in all]"] if more > 0 else []
    return "\n".join([line[:200] for line in shown[:_MAX_SHOWN_LINES]] + rest)


def _choose_match(path: str, text: str, hunk: DiffHunk, drift: int) -> PassageMatch:
    if not hunk.old:
        return _insertion_match(path, text, hunk, drift)
    matches = find_passages(text, hunk.old, hunk.new)
    if not matches:
        raise _not_found(path, text, hunk.old)
    if len(matches) > 1:
        exact = [p for p in matches if line_number(text, p.start) == hunk.line + drift]
        if len(exact) != 1:
            raise ToolError(
                f"a hunk fits {path} in {len(matches)} places, at lines "
                f"{_line_numbers(text, matches)}. Give more context lines."
            )
        matches = exact
    return matches[0]


def _insertion_match(path: str, text: str, hunk: DiffHunk, drift: int) -> PassageMatch:
    lines = text.split("\n")
    if text and (not hunk.line or hunk.line + drift > len(lines)):
        raise ToolError(f"a hunk for {path} only adds lines: give the lines around them as context")
    start = sum(len(line) + 1 for line in lines[: hunk.line + drift]) if text else 0
    crlf = "\r\n" in text
    new = hunk.new.replace("\n", "\r\n") if crlf else hunk.new
    if start > len(text):  # after a last line without a line end
        return PassageMatch(len(text), len(text), ("\r\n" if crlf else "\n") + new.rstrip("\r\n"))
    return PassageMatch(start, start, new)


def _changed_lines(text: str, match: PassageMatch) -> tuple[int, list[str]]:
    start = text.rfind("\n", 0, match.start) + 1
    stop = match.end
    if stop == start or text[stop - 1] != "\n" or not match.replacement.endswith("\n"):
        end = text.find("\n", stop)
        stop = len(text) if end < 0 else end
    old = text[start:stop].split("\n")
    new = (text[start : match.start] + match.replacement + text[match.end : stop]).split("\n")
    same = _common_line_count(old, new)
    line = line_number(text, start) + same
    old, new = old[same:], new[same:]
    same = _common_line_count(old[::-1], new[::-1])
    old, new = old[: len(old) - same], new[: len(new) - same]
    return line, [f"-{gone.rstrip()}" for gone in old] + [f"+{come.rstrip()}" for come in new]


def _common_line_count(one: Sequence[str], other: Sequence[str]) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((k for k, (a, b) in pairs if a != b), min(len(one), len(other)))


def _not_found(path: str, text: str, old: str) -> ToolError:
    near = closest_passages(text, old)
    hint = f"The nearest lines are:\n{near}" if near else "Nothing there is like it."
    return ToolError(f"{path} does not hold this text; nothing was changed. {hint}")


def _line_numbers(text: str, matches: Sequence[PassageMatch]) -> str:
    numbers = ", ".join(str(line_number(text, match.start)) for match in matches[:20])
    return f"{numbers}{' …' if len(matches) > 20 else ''}"


class _FileChange(Value, frozen=True):
    path: str
    before: bytes | None
    """None when the file is new."""
    after: bytes
    summary: str


def make_patch(dependencies: ToolDependencies) -> Tool:
    @tool(risk=Risk.CHANGE)
    async def patch(
        context: ToolContext,
        path: str = "",
        old: Annotated[str, about("text to replace; must occur once")] = "",
        new: str = "",
        replace_all: bool = False,
        diff: Annotated[str, about("instead: a unified diff, also of several files")] = "",
    ) -> str:
        """Replace a passage of a file, or apply a diff (all of it or nothing)."""
        if bool(diff) == bool(old):
            raise ToolError("give either path, old and new, or diff")
        if old and not path:
            raise ToolError("path is missing: which file?")
        files = parse_diff(diff, path) if diff else []
        async with AsyncExitStack() as held:
            for name in sorted({file.path for file in files} or {path}):
                await held.enter_async_context(dependencies.seen_files.lock(context, name))
            if files:
                changes = [await _diff_change(dependencies, context, file) for file in files]
            else:
                changes = [
                    await _replace_change(dependencies, context, path, (old, new, replace_all))
                ]
            await _write_all(context.environment, changes)
            for change in changes:
                dependencies.seen_files.note(context, change.path, content_digest(change.after))
        return "\n".join(printable(f"{_verb(c)} {c.path}\n{c.summary}") for c in changes)

    return patch


async def _replace_change(
    dependencies: ToolDependencies, context: ToolContext, path: str, wanted: tuple[str, str, bool]
) -> _FileChange:
    before = await _read_current(dependencies, context, path)
    decoded = decode_text(before)
    if decoded is None:
        raise ToolError(f"{path} is not a text file")
    old, new, every = wanted
    work = partial(replace_passage, path, decoded.text, old, new, every=every)
    edited = await to_thread.run_sync(work)  # seconds, for a large file without anything similar
    return _FileChange(path, before, decoded.encode(edited.text), edited.summary)


async def _diff_change(
    dependencies: ToolDependencies, context: ToolContext, file: FileDiff
) -> _FileChange:
    if file.creates:
        return await _new_file_change(dependencies, context, file)
    before = await _read_current(dependencies, context, file.path)
    decoded = decode_text(before)
    if decoded is None:
        raise ToolError(f"{file.path} is not a text file")
    edited = await to_thread.run_sync(apply_hunks, file.path, decoded.text, file.hunks)
    return _FileChange(file.path, before, decoded.encode(edited.text), edited.summary)


async def _new_file_change(
    dependencies: ToolDependencies, context: ToolContext, file: FileDiff
) -> _FileChange:
    try:
        await context.environment.read(file.path, limit=1)
    except ToolError:
        dependencies.seen_files.check(context, file.path, None)
        edited = apply_hunks(file.path, "", file.hunks)
        lines = f"{edited.text.count(chr(10))} lines"
        return _FileChange(file.path, None, edited.text.encode(), lines)
    raise ToolError(f"the diff creates {file.path}, which is there already; nothing was changed")


async def _read_current(dependencies: ToolDependencies, context: ToolContext, path: str) -> bytes:
    try:
        data = await context.environment.read(path, limit=MAX_TRACKED_BYTES + 1)
    except ToolError as error:
        dependencies.seen_files.check(context, path, None)
        raise await explain_missing_path(context.environment, path, error) from error
    if len(data) > MAX_TRACKED_BYTES:
        raise ToolError(
            f"{path} is over {MAX_TRACKED_BYTES:,} bytes: change it with sed through terminal"
        )
    dependencies.seen_files.check(context, path, content_digest(data))
    return data


async def _write_all(environment: Environment, changes: Sequence[_FileChange]) -> None:
    """All files or none: files written before a failure are restored."""
    with anyio.CancelScope(shield=True):
        written: list[_FileChange] = []
        try:
            for change in changes:
                written.append(change)
                await environment.write(change.path, change.after)
        except HermesError:
            for change in written[:-1]:
                if change.before is None:
                    await environment.run(f"rm -f {shell_path(change.path)}")
                else:
                    await environment.write(change.path, change.before)
            raise


def _verb(change: _FileChange) -> str:
    return "created" if change.before is None else "patched"
