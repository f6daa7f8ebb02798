"""Secret values, such as keys and tokens, that are never printed by accident."""

from collections.abc import Iterable, Iterator, Mapping

SECRET_NAME_WORDS = frozenset(
    {
        *("KEY", "APIKEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIALS"),
        *("PAT", "AUTHORIZATION", "COOKIE"),
        "APPRISE",  # its addresses hold the tokens of services
    }
)


class Secrets(Mapping[str, str]):
    """Variables by name; `repr` and `str` show only their number."""

    def __init__(self, values: Mapping[str, str] | None = None, kept: Iterable[str] = ()) -> None:
        self._values = dict(values or {})
        self.kept = frozenset(kept)
        """The names from .env; the others come from the process environment."""

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
        """Variables with a secret name: for redaction and for lists of names."""
        return {name: value for name, value in self._values.items() if value and is_secret(name)}


def is_secret(name: str) -> bool:
    """Return whether a variable or header with this name must never be printed."""
    return not SECRET_NAME_WORDS.isdisjoint(name.upper().replace("-", "_").split("_"))


def mask_secret(value: str) -> str:
    """Show only the beginning and the end, to recognise a key: `sk-…9f2c`."""
    if len(value) < 12:
        return "…" if value else ""
    head = value[: value.find("-") + 1] if 0 < value.find("-") < 4 else value[:2]
    return f"{head}…{value[-4:]}"
