"""The settings of the sections `channels` (chat platforms, and how people are talked to there) and
`hooks`.

Nothing of a channel is imported here: every command loads this module.
"""

from collections.abc import Callable
from typing import ClassVar, Literal

import msgspec

# As in core.events, which is not imported here: every command would load it.
LowestSeverity = Literal["P0", "P1", "P2", "P3"]
MessageKind = Literal[
    "declared", "update", "approval-needed", "resolved", "escalated", "briefing", "health"
]
ChatId = str | int
"""An id of a platform; a number in YAML is one as well."""


class ChannelSettings(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """The settings that all chat channels have in common."""

    secret_names: ClassVar[tuple[str, ...]] = ()
    """Secrets without which the channel is not used, by the name of their variable."""
    needed_keys: ClassVar[tuple[str, ...]] = ()
    """Keys without which the channel is not used."""

    enabled: bool = True
    """Whether the channel is used once it is configured."""
    home_channel: ChatId = ""
    """The chat for notifications, and for what has no other address; empty: none."""
    allowed_users: tuple[ChatId, ...] = ()
    """Ids of the people who may talk to Hermes there. Empty: only those who are paired."""
    allowed_groups: tuple[ChatId, ...] = ()
    """Ids of the groups in which Hermes answers. Empty: none."""
    mention: Literal["always", "thread", "free"] = "thread"
    """When Hermes answers in a group: always only when it is mentioned, in a thread of its own
    without a mention as well, or freely to every message."""
    severity: LowestSeverity = "P2"
    """The lowest severity of incidents that are reported in the home chat."""
    about: tuple[MessageKind, ...] = ()
    """The kinds of notifications that are sent to the home chat; empty: all."""
    toolsets: tuple[str, ...] = ()
    """The toolsets, or single tools, that chats there may use, such as hermes-telegram or safe.
    Empty: those of tools.toolsets, and schedule."""

    def is_partly_configured(self, secret: Callable[[str], str | None]) -> bool:
        """Return whether at least one of the settings that the channel needs is there."""
        return self.enabled and (
            any(secret(name) for name in self.secret_names)
            or any(getattr(self, key) != "" for key in self.needed_keys)
        )

    @property
    def home_chat(self) -> str:
        return str(self.home_channel)

    @property
    def user_ids(self) -> frozenset[str]:
        return frozenset(map(str, self.allowed_users))

    @property
    def group_ids(self) -> frozenset[str]:
        return frozenset(map(str, self.allowed_groups))


class TelegramSettings(ChannelSettings, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """The section `channels.telegram`."""

    secret_names: ClassVar[tuple[str, ...]] = ("TELEGRAM_BOT_TOKEN",)

    base_url: str = ""
    """The address of a Bot API server of your own, such as http://127.0.0.1:8081; empty: that of
    Telegram."""


class SlackSettings(ChannelSettings, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """The section `channels.slack`."""

    secret_names: ClassVar[tuple[str, ...]] = ("SLACK_BOT_TOKEN", "SLACK_APP_TOKEN")

    base_url: str = ""
    """The address of the Web API; empty: that of Slack."""


class DiscordSettings(ChannelSettings, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """The section `channels.discord`."""

    secret_names: ClassVar[tuple[str, ...]] = ("DISCORD_BOT_TOKEN",)

    base_url: str = ""
    """The address of the API; empty: that of Discord."""


class WhatsAppSettings(ChannelSettings, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """The section `channels.whatsapp`: the Cloud API."""

    secret_names: ClassVar[tuple[str, ...]] = (
        "WHATSAPP_TOKEN",
        "WHATSAPP_APP_SECRET",
        "WHATSAPP_VERIFY_TOKEN",
    )
    needed_keys: ClassVar[tuple[str, ...]] = ("phone_number_id",)

    phone_number_id: ChatId = ""
    """The id of the number that sends, as the Cloud API shows it."""
    template: str = ""
    """The approved template for people who were silent for 24 hours; empty: they get nothing."""
    template_language: str = "en"
    """The language of the template."""
    base_url: str = ""
    """The address of the Graph API; empty: that of Meta."""


class SignalSettings(ChannelSettings, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """The section `channels.signal`: a running `signal-cli daemon --http`."""

    needed_keys: ClassVar[tuple[str, ...]] = ("url", "account")

    url: str = ""
    """The address of the daemon, such as http://127.0.0.1:8080; empty: none."""
    account: str = ""
    """The phone number of the account, such as +4912345."""


class MattermostSettings(ChannelSettings, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """The section `channels.mattermost`."""

    secret_names: ClassVar[tuple[str, ...]] = ("MATTERMOST_TOKEN",)
    needed_keys: ClassVar[tuple[str, ...]] = ("url",)

    url: str = ""
    """The address of the server; empty: none."""
    callback_url: str = ""
    """Has no effect yet: questions on Mattermost have no buttons and are answered in words."""


class MatrixSettings(ChannelSettings, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """The section `channels.matrix`: unencrypted rooms only."""

    secret_names: ClassVar[tuple[str, ...]] = ("MATRIX_ACCESS_TOKEN",)
    needed_keys: ClassVar[tuple[str, ...]] = ("homeserver",)

    homeserver: str = ""
    """The address of the homeserver; empty: none."""


class EmailSettings(ChannelSettings, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """The section `channels.email`."""

    secret_names: ClassVar[tuple[str, ...]] = ("EMAIL_PASSWORD",)
    needed_keys: ClassVar[tuple[str, ...]] = ("smtp_host", "address")

    address: str = ""
    """The address that Hermes sends from."""
    user: str = ""
    """The name for the log-in; empty: the address."""
    smtp_host: str = ""
    """The server for outgoing mail; empty: none."""
    smtp_port: int = 465
    """Its port: 465 for TLS from the beginning, otherwise STARTTLS."""
    imap_host: str = ""
    """The server for incoming mail; empty: mail is only sent."""
    imap_port: int = 993
    """Its port, with TLS from the beginning."""
    inbound: bool = False
    """Whether mail is read. The sender of a mail can be forged: it never approves anything."""
    poll: float = 60.0
    """Seconds between two looks for new mail."""


class AppriseSettings(ChannelSettings, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """The section `channels.apprise`: services that are only sent to."""

    secret_names: ClassVar[tuple[str, ...]] = ("APPRISE_URLS",)

    home_channel: ChatId = "all"
    """The name under which all addresses of APPRISE_URLS are sent to."""


class TalkSettings(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """The section `channels.talk`: how people are talked to, on every channel."""

    busy: Literal["steer", "queue", "interrupt"] = "steer"
    """What a message does while Hermes works: it steers the turn, waits, or interrupts it."""
    reset: Literal["none", "idle", "daily"] = "idle"
    """When a chat begins a new session automatically."""
    idle: float = 86_400.0
    """Seconds without a message after which a session is over, for `reset: idle`."""
    daily_at: str = "04:00"
    """The local time of the new session, for `reset: daily`."""
    cwd: str = ""
    """The folder in which sessions begin; empty: the home directory of the user."""
    human_delay_mode: Literal["off", "natural", "custom"] = "off"
    """A pause before an answer, as if a person typed it. Notifications never wait."""
    human_delay_min_ms: int = 800
    """The shortest pause in milliseconds, for `custom`."""
    human_delay_max_ms: int = 2500
    """The longest pause in milliseconds, for `custom`."""
    progress_every: float = 2.0
    """Seconds between two edits of the message that shows the running tools."""
    max_waiting: int = 10
    """Messages of one chat that wait while Hermes works."""
    max_messages_per_minute: int = 20
    """Messages of one person within a minute that are answered."""
    max_turns_per_person: int = 3
    """Turns of one person at the same time."""
    max_turns: int = 8
    """Turns of all people at the same time."""
    max_media_bytes: int = 20 * 2**20
    """The largest file that is accepted."""
    media_cache_bytes: int = 2**30
    """Bytes of all cached files; the oldest are removed."""
    media_days: float = 30.0
    """Days for which a received file is kept."""


class ChannelsSettings(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """The section `channels` of the configuration."""

    telegram: TelegramSettings = TelegramSettings()
    """Telegram."""
    slack: SlackSettings = SlackSettings()
    """Slack, in socket mode."""
    discord: DiscordSettings = DiscordSettings()
    """Discord."""
    whatsapp: WhatsAppSettings = WhatsAppSettings()
    """WhatsApp, by the Cloud API."""
    signal: SignalSettings = SignalSettings()
    """Signal, by signal-cli."""
    mattermost: MattermostSettings = MattermostSettings()
    """Mattermost."""
    matrix: MatrixSettings = MatrixSettings()
    """Matrix."""
    email: EmailSettings = EmailSettings()
    """E-mail."""
    apprise: AppriseSettings = AppriseSettings()
    """Apprise: services that are only sent to."""
    talk: TalkSettings = TalkSettings()
    """How people are talked to, on every channel."""

    def partly_configured(self, secret: Callable[[str], str | None]) -> dict[str, ChannelSettings]:
        """Return, by name, the channels for which at least one needed setting is there."""
        sections = {name: getattr(self, name) for name in self.__struct_fields__}
        return {
            name: section
            for name, section in sections.items()
            if isinstance(section, ChannelSettings) and section.is_partly_configured(secret)
        }


class EventWebhookSettings(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """An address that is notified of events, an item of `hooks.webhooks`."""

    url: str
    """Where each event is sent, as JSON by POST."""
    events: tuple[str, ...]
    """Names of events, such as `incident:opened`; `incident:*` is all of a subject."""
    secret_variable: str = ""
    """Name of the secret that signs the body; empty: it is not signed."""
    name: str = ""
    """For the log and for errors; empty: webhook-1 for the first, and so on."""


class HookSettings(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """The section `hooks` of the configuration. Hooks themselves are folders of the home."""

    webhooks: tuple[EventWebhookSettings, ...] = ()
    """Addresses that are notified of events: url, events, secret_variable."""
