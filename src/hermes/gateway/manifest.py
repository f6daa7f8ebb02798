"""What is known of a channel before its client library is imported, and how it is opened.

A chat channel is a folder with a `manifest.py`, named in the entry-point group `hermes.channels`.
Its runtime, which imports the library of the platform, is loaded only when it is configured.
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Literal, cast

from hermes.core.channels import Channel
from hermes.core.errors import PluginError, SettingsError
from hermes.core.messages import Value
from hermes.core.plugins import load_plugin
from hermes.gateway.settings import ChannelSettings, ChannelsSettings
from hermes.gateway.transports import SendingPace as SendingPace  # part of the plug-in interface

CHANNEL_GROUP = "channels"
LengthUnit = Literal["utf16", "code points", "bytes"]
TextFormat = Literal["plain", "markdown", "mrkdwn", "html"]
"""`plain` also where styles are sent beside the text, as Telegram wants them."""


class ChannelLimits(Value, kw_only=True, frozen=True):
    max_text: int = 4_096
    """The longest text of one message, in `unit`."""
    unit: LengthUnit = "code points"
    format: TextFormat = "plain"
    """The markup of the platform, which counts as text."""
    max_buttons: int = 0
    """Buttons of one message; 0: the platform has none."""
    max_file_bytes: int = 20 * 2**20
    """A larger file is not sent; the message says so."""
    pace: SendingPace = SendingPace()


class ChannelManifest(Value, kw_only=True, frozen=True):
    """A chat channel. It is called with the settings and the secrets to open its runtime."""

    name: str
    title: str
    """As the platform writes its name."""
    settings: type[ChannelSettings]
    runtime: str
    """`module:function` of what opens it: `open_channel(settings, secrets) -> Channel`."""
    extra: str = ""
    """The extra of `pip install 'hermes-oncall[…]'` that brings its library."""
    limits: ChannelLimits = ChannelLimits()
    setup: tuple[str, ...] = ()
    """What a person does to configure it, step by step."""

    def __call__(self, settings: ChannelSettings, secrets: Mapping[str, str]) -> Channel:
        """Raises `SettingsError` where its library is not installed."""
        module, _, attribute = self.runtime.partition(":")
        try:
            open_channel = getattr(import_module(module), attribute)
        except ModuleNotFoundError as error:
            if not self.extra or (error.name or "").startswith("hermes"):
                raise
            raise SettingsError(
                f"{self.title} needs the package {error.name}, which is not installed: "
                f"pip install 'hermes-oncall[{self.extra}]'"
            ) from error
        return cast(Channel, open_channel(settings, secrets))


class ConfiguredChannel(Value, kw_only=True, frozen=True):
    """A channel of the configuration with its secrets."""

    name: str
    settings: ChannelSettings
    secrets: dict[str, str] = {}
    missing: tuple[str, ...] = ()
    """Variables and keys that are still needed. While there are any, the channel is not used."""

    def load(self, home: Path | None = None) -> ChannelManifest:
        """Raises `SettingsError`, or `PluginError` for a broken plug-in."""
        found = load_plugin(CHANNEL_GROUP, self.name, home)
        if not isinstance(found, ChannelManifest):
            raise PluginError(f"{self.name} in hermes.{CHANNEL_GROUP} is no chat channel")
        return found

    def __repr__(self) -> str:
        return f"<ConfiguredChannel {self.name}>"


def configured_channels(
    channels: ChannelsSettings, secret: Callable[[str], str | None]
) -> dict[str, ConfiguredChannel]:
    """The channels of the section `channels` that are configured, at least in part, by name.

    Nothing of a channel is imported.
    """
    found = {}
    for name, settings in channels.partly_configured(secret).items():
        secrets = {each: secret(each) or "" for each in settings.secret_names}
        keys = {each: str(getattr(settings, each)) for each in settings.needed_keys}
        missing = [each for each, value in secrets.items() if not value]
        missing += [f"channels.{name}.{each}" for each, value in keys.items() if not value]
        found[name] = ConfiguredChannel(
            name=name, settings=settings, secrets=secrets, missing=tuple(missing)
        )
    return found
