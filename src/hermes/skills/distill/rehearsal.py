"""Repeats a fix in fresh places: drops what did not matter, sees what tells broken from well."""

from collections.abc import Awaitable, Callable, Sequence

from hermes.core.messages import Value
from hermes.skills.distill.deeds import Deed, NotDistilled

SETTLE = "sleep 1"
"""Between the last change and the looks that follow: services take a moment to come up."""
WANTED, MOST = 2, 3
"""Rehearsals that have to agree, and how many are tried for that."""


class Seen(Value, frozen=True):
    code: int | None
    output: str


class Rehearsed(Value, kw_only=True, frozen=True):
    solved: bool
    """As whoever judges the place says, and not the commands."""
    seen: tuple[Seen, ...] = ()


Rehearse = Callable[[Sequence[str]], Awaitable[Rehearsed]]
"""Runs commands one after the other in a fresh place, broken as it was."""


class Contrast(Value, frozen=True):
    """What each look shows in the broken place and in the mended one."""

    before: dict[str, Seen]
    after: dict[str, Seen]


async def reduce_changes(changes: Sequence[Deed], rehearse: Rehearse) -> list[Deed]:
    """The changes without which it does not hold. Raises `NotDistilled` when all do not either.

    A restart after another change stays: that a unit came up by itself in time, once, is luck.
    """
    kept = list(changes)
    if not await holds(kept, rehearse):
        raise NotDistilled(
            "repeated in a fresh place the fix does not hold: something else mattered too"
        )
    for deed in list(kept):
        fewer = [other for other in kept if other is not deed]
        if deed.restarts and fewer and fewer[0].seq < deed.seq:
            continue
        if fewer and await holds(fewer, rehearse):
            kept = fewer
    return kept


async def holds(changes: Sequence[Deed], rehearse: Rehearse) -> bool:
    """What two rehearsals agree on; where they do not, a third decides: hosts have their moods."""
    commands = [deed.command for deed in changes]
    first = (await rehearse(commands)).solved
    second = (await rehearse(commands)).solved
    return first if first == second else (await rehearse(commands)).solved


async def contrasts(
    looks: Sequence[str], changes: Sequence[Deed], rehearse: Rehearse
) -> list[Contrast]:
    """The same looks on the broken and on the mended place, in two rehearsals that ended well.

    What a look tells has to be told in both: a unit that was just starting, once, tells nothing.
    Raises `NotDistilled` when the fix holds only now and then.
    """
    wanted = list(dict.fromkeys(looks))
    commands = [*wanted, *(deed.command for deed in changes), SETTLE, *wanted]
    found: list[Contrast] = []
    for _ in range(MOST):
        rehearsed = await rehearse(commands)
        if rehearsed.solved:
            found.append(_contrast(wanted, len(changes), rehearsed.seen))
        if len(found) == WANTED:
            return found
    raise NotDistilled(
        f"of {MOST} rehearsals in fresh places the fix held in {len(found)}: that is too much luck"
    )


def _contrast(wanted: Sequence[str], changes: int, seen: Sequence[Seen]) -> Contrast:
    return Contrast(
        dict(zip(wanted, seen, strict=False)),
        dict(zip(wanted, seen[len(wanted) + changes + 1 :], strict=False)),
    )
