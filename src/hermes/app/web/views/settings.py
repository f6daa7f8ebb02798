"""Settings with value, source and meaning; secrets as set or not; channels and people."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime

import anyio.to_thread
import msgspec

from hermes.app.channels.states import read_channel_states
from hermes.app.incidents.views import PlainObject
from hermes.app.people import load_people, require_known
from hermes.app.secret_redactor import SecretRedactor
from hermes.core.channels import Address
from hermes.core.errors import DeliveryError, HermesError
from hermes.memory.store import JournalStore
from hermes.settings.describe import SettingDescription, describe_settings
from hermes.settings.load import LoadedSettings
from hermes.settings.secrets import is_secret

MAX_VALUE_CHARS = 300


class HomeSettings:
    """Fulfils what the page of settings shows and does."""

    def __init__(self, loaded: LoadedSettings, journal: JournalStore) -> None:
        self._loaded, self._journal = loaded, journal
        self._redact = SecretRedactor(loaded)
        self._rows: list[PlainObject] = []

    async def settings(self, *, words: str = "", changed: bool = False) -> Sequence[PlainObject]:
        """Every key whose name or meaning has these words."""
        if not self._rows:  # a process reads its settings once
            self._rows = await anyio.to_thread.run_sync(self._describe)
        wanted = words.casefold().split()
        return [
            row
            for row in self._rows
            if (not changed or row["source"] != "default")
            and all(word in f"{row['key']} {row['about']}".casefold() for word in wanted)
        ]

    def _describe(self) -> list[PlainObject]:
        return [self._row(each) for each in describe_settings(self._loaded)]

    def _row(self, row: SettingDescription) -> PlainObject:
        return {
            "key": row.key,
            "section": row.key.partition(".")[0],
            "value": self._text(row.key, row.value),
            "source": row.source,
            "where": row.where,
            "default": self._text(row.key, row.default),
            "type": row.type,
            "about": row.about,
            "variables": list(row.variables),
        }

    def _text(self, key: str, value: object) -> str:
        if isinstance(value, str):
            secret = is_secret(re.sub(r"[^A-Za-z0-9]", "_", key.rpartition(".")[2]))
            return "set" if value and secret else self._redact(value)[:MAX_VALUE_CHARS]
        text = msgspec.json.encode(value, enc_hook=str).decode()
        return self._redact(text)[:MAX_VALUE_CHARS]

    async def secrets(self) -> list[PlainObject]:
        """Names of secrets, and whether each is set; never a value."""
        from hermes.models.catalog import model_catalog

        secrets = self._loaded.secrets
        providers = {each.key_variable for each in model_catalog().providers.values()}
        names = {*secrets.kept, *(name for name in providers if name)}
        found = [name for name in names if is_secret(name)]
        rows: list[PlainObject] = [
            {
                "name": name,
                "set": bool(secrets.get(name)),
                "source": ".env" if name in secrets.kept else "environment",
            }
            for name in sorted(found)
        ]
        return sorted(rows, key=lambda row: (not row["set"], str(row["name"])))

    async def channels(self) -> list[PlainObject]:
        states = await read_channel_states(self._loaded, self._journal, datetime.now(UTC))
        return [
            {
                "name": each.name,
                "kind": each.kind,
                "status": each.status,
                "listens": each.listens,
                "home": each.home,
                "detail": self._redact(each.detail),
                "since": each.since.isoformat() if each.since else None,
                "waiting": each.waiting,
            }
            for each in states
        ]

    async def test_channel(self, name: str, *, person: str) -> str:
        """Send a test message to the home chat of a channel. Raises `HermesError`."""
        from hermes.app.channels.delivery_test import send_test_message

        await require_known(self._loaded, self._journal, person)
        try:
            sent = await send_test_message(self._loaded, Address.parse(name))
        except DeliveryError as error:
            raise HermesError(self._redact(f"{name} does not work: {error}")) from error
        return f"{name}: a test message was sent in {sent.seconds:.1f} s"

    async def people(self) -> list[PlainObject]:
        return [
            {
                "name": person.name,
                "channels": sorted(person.ids),
                "groups": list(person.groups),
                "source": "config.yaml" if person.in_settings else "hermes people add",
            }
            for person in await load_people(self._loaded, self._journal)
        ]

    @property
    def home(self) -> str:
        return str(self._loaded.home)
