"""Values nobody may see by accident: keys and tokens, held so that printing shows nothing."""

from collections.abc import Iterable, Iterator, Mapping

SECRET_NAME_WORDS = frozenset(
    {
        *("KEY", "APIKEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIALS"),
        *("PAT", "AUTHORIZATION", "COOKIE"),
    }
)


class Secrets(Mapping[str, str]):
    """Variables by name; `repr` and `str` say how many there are and nothing more."""

    def __init__(self, values: Mapping[str, str] | None = None, kept: Iterable[str] = ()) -> None:
        self._values = dict(values or {})
        self.kept = frozenset(kept)
        """The names that stand in our own .env; the others belong to the whole environment."""

    def __getitem__(self, name: str) -> str:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"<Secrets: {len(self)}>"

    __str__ = __repr__

    def sensitive(self) -> dict[str, str]:
        """Those whose name says that they are secret: for redaction and for listings by name."""
        return {name: value for name, value in self._values.items() if value and is_secret(name)}


def is_secret(name: str) -> bool:
    """Is this the name of a variable, or a header, that must never be printed?"""
    return not SECRET_NAME_WORDS.isdisjoint(name.upper().replace("-", "_").split("_"))


def mask_secret(value: str) -> str:
    """Enough to recognise which key it is, too little to use it: `sk-…9f2c`."""
    if len(value) < 12:
        return "…" if value else ""
    head = value[: value.find("-") + 1] if 0 < value.find("-") < 4 else value[:2]
    return f"{head}…{value[-4:]}"
