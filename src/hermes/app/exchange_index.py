"""Reads an index as a subscriber does: whose word it is, what it takes back, how old it is."""

import shlex
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from hermes.app.exchange_checks import check_signature
from hermes.core.messages import Value
from hermes.settings.load import Loaded
from hermes.skills.exchange.archive import Refused
from hermes.skills.exchange.index import Index, grown_old, open_index, read_listing, seen_index
from hermes.skills.exchange.keyring import Keyring
from hermes.skills.exchange.sealing import Sealed


class Looked(Value, kw_only=True, frozen=True):
    index: Index
    key: str
    statements: tuple[Sealed, ...] = ()
    warning: str = ""

    def said(self, kind: str) -> list[Sealed]:
        return [each for each in self.statements if each.kind == kind]


def look_at(data: bytes, keyring: Keyring, *, warn_days: int, most_days: int) -> Looked:
    """Raises `Refused`. What was revoked counts even when the index itself is not believed."""
    listing = read_listing(data)
    index = open_index(listing, check_signature)
    heed(listing.statements, keyring)
    publisher = keyring.known.publishers.get(index.publisher)
    keyring.check_key(listing.index.key)
    if publisher is not None:
        open_index(listing, check_signature, publisher.key)
    warning = grown_old(index, warn_days=warn_days, most_days=most_days)
    keyring.check_index(index.publisher, listing.index.key, seen_index(listing, index))
    return Looked(
        index=index, key=listing.index.key, statements=listing.statements, warning=warning
    )


def heed(statements: Sequence[Sealed], keyring: Keyring) -> list[str]:
    """Changes of key first, as lists of revocations may be signed by the new one.

    Statements of strangers, or by a key that may not say such things, are left aside: whoever
    hands out an index can put anything into it. Why, for each of them.
    """
    refused: list[str] = []
    for kind, take in (("rotation", keyring.rotate), ("revocations", keyring.take_back)):
        for each in statements:
            if each.kind != kind:
                continue
            try:
                take(each, check_signature)
            except Refused as why:
                refused.append(str(why))
    return refused


@asynccontextmanager
async def cloned(loaded: Loaded, source: str) -> AsyncIterator[Path]:
    """A git repository that holds an index, for as long as the block lasts."""
    from hermes.app.environment import opening
    from hermes.environments.local import LocalEnvironment

    with tempfile.TemporaryDirectory(prefix="hermes-skills-") as made:
        folder = Path(made)
        address = shlex.quote(source.removeprefix("git+"))
        command = (
            "GIT_TERMINAL_PROMPT=0 git -c core.hooksPath=/dev/null -c protocol.ext.allow=never "
            f"-c core.symlinks=false clone -q --depth 1 -- {address} repository"
        )
        async with LocalEnvironment(folder, opening(loaded, folder).variables) as place:
            ran = await place.run(command, timeout=120.0)
        if ran.exit_code != 0:
            raise Refused(f"{source} could not be cloned: {ran.output.strip()[-400:]}")
        yield folder / "repository"
