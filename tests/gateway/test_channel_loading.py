"""Which channels are configured, and that one that is not costs nothing."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from hermes.app.secret_redactor import own_secret_values
from hermes.core.errors import PluginError, SettingsError
from hermes.core.plugins import BUILT_IN
from hermes.gateway.manifest import ChannelManifest, configured_channels
from hermes.gateway.settings import ChannelSettings, ChannelsSettings
from hermes.settings.load import LoadedSettings, load

PLUGIN = """
from collections.abc import AsyncIterator
from typing import Self

from hermes.core.channels import InboundMessage, OutgoingMessage
from hermes.gateway.manifest import ChannelManifest
from hermes.gateway.settings import ChannelSettings


class RadioSettings(ChannelSettings, kw_only=True, frozen=True, forbid_unknown_fields=True):
    needed_keys = ("frequency",)

    frequency: float | str = ""


class Radio:
    name = "radio"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None: ...

    async def listen(self) -> AsyncIterator[InboundMessage]:
        for nothing in ():
            yield nothing

    async def send(self, message: OutgoingMessage) -> str:
        return message.key


def open_radio(settings, secrets):
    return Radio()


RADIO = ChannelManifest(
    name="radio", title="Radio", settings=RadioSettings, runtime="hermes_plugin_radio:open_radio"
)
ENTRY_POINTS = {"hermes.channels": {"radio": RADIO}}
"""


def loaded_from(folder: Path, config: str = "", **variables: str) -> LoadedSettings:
    home = folder / "home"
    home.mkdir(mode=0o700, exist_ok=True)
    (home / "config.yaml").write_text(config)
    return load(home=home, variables=variables | {"HOME": str(folder)})


def test_nothing_is_configured_by_default(tmp_path: Path) -> None:
    loaded = loaded_from(tmp_path)
    assert configured_channels(loaded.settings.channels, loaded.secrets.get) == {}


def test_a_token_configures_a_channel_and_variables_set_its_home_and_its_people(
    tmp_path: Path,
) -> None:
    loaded = loaded_from(
        tmp_path,
        TELEGRAM_BOT_TOKEN="1:abc",
        TELEGRAM_ALLOWED_USERS="123456789, 42",
        TELEGRAM_HOME_CHANNEL="-100123",
    )
    (found,) = configured_channels(loaded.settings.channels, loaded.secrets.get).values()
    assert (found.name, found.missing, found.settings.home_chat) == ("telegram", (), "-100123")
    assert found.settings.user_ids == {"123456789", "42"}
    assert found.secrets == {"TELEGRAM_BOT_TOKEN": "1:abc"}
    assert "abc" not in repr(found)


def test_numbers_in_the_configuration_are_ids(tmp_path: Path) -> None:
    config = "channels: {telegram: {home_channel: -100123, allowed_users: [42, '43']}}\n"
    settings = loaded_from(tmp_path, config).settings.channels.telegram
    assert settings.home_chat == "-100123"
    assert settings.user_ids == {"42", "43"}


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    config = "channels: {whatsapp: {phone_number_id: 1}, signal: {account: '+49'}}\n"
    loaded = loaded_from(tmp_path, config, SLACK_BOT_TOKEN="xoxb-1")
    found = configured_channels(loaded.settings.channels, loaded.secrets.get)
    assert found["slack"].missing == ("SLACK_APP_TOKEN",)
    assert found["signal"].missing == ("channels.signal.url",)
    assert len(found["whatsapp"].missing) == 3


def test_a_channel_can_be_switched_off(tmp_path: Path) -> None:
    config = "channels: {telegram: {enabled: false}}\n"
    loaded = loaded_from(tmp_path, config, TELEGRAM_BOT_TOKEN="1:abc")
    assert configured_channels(loaded.settings.channels, loaded.secrets.get) == {}


def test_every_secret_of_a_channel_is_known_to_the_redactor(tmp_path: Path) -> None:
    sections = [getattr(ChannelsSettings(), name) for name in ChannelsSettings.__struct_fields__]
    names = [
        name for each in sections if isinstance(each, ChannelSettings) for name in each.secret_names
    ]
    assert len(names) >= 9
    given = {name: f"value of {name}" for name in names}
    assert own_secret_values(loaded_from(tmp_path, **given)) == given


@pytest.mark.parametrize("name", sorted(BUILT_IN["channels"]))
def test_the_manifest_of_a_built_in_channel_has_its_settings(name: str, tmp_path: Path) -> None:
    settings = getattr(ChannelsSettings(), name)
    settings = replace(settings, **{each: "x" for each in settings.needed_keys})
    secrets = {each: "x" for each in settings.secret_names}
    channels = replace(ChannelsSettings(), **{name: settings})
    manifest = configured_channels(channels, secrets.get)[name].load()
    assert isinstance(manifest, ChannelManifest)
    assert (manifest.name, manifest.settings) == (name, type(settings))
    assert manifest.setup


def test_manifests_import_no_library_of_a_platform() -> None:
    program = (
        "import sys\n"
        "from importlib import import_module\n"
        "from hermes.core.plugins import BUILT_IN, load_plugin\n"
        "for name in BUILT_IN['channels']: load_plugin('channels', name)\n"
        "print([n for n in ('telegram', 'slack_sdk', 'discord', 'aiohttp') if n in sys.modules])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout == "[]\n", done.stderr


@pytest.fixture
def radio(tmp_path: Path) -> Path:
    plugins = tmp_path / "home" / "plugins"
    plugins.mkdir(mode=0o700, parents=True)
    (tmp_path / "home").chmod(0o700)
    (plugins / "radio.py").write_text(PLUGIN)
    (plugins / "radio.py").chmod(0o600)
    return tmp_path


def test_a_chat_channel_of_a_plug_in_has_a_section_of_its_own(radio: Path) -> None:
    loaded = loaded_from(radio, "channels: {radio: {frequency: 100.6, home_channel: 7}}\n")
    found = configured_channels(loaded.settings.channels, loaded.secrets.get)["radio"]
    assert found.settings.home_chat == "7"
    channel = found.load(loaded.home)(found.settings, found.secrets)
    assert channel.name == "radio"


def test_a_mistake_in_its_section_is_reported(radio: Path) -> None:
    with pytest.raises(SettingsError, match=r"channels\.radio\.frequncy.*frequency"):
        loaded_from(radio, "channels: {radio: {frequncy: 100.6}}\n")
    with pytest.raises(SettingsError, match=r"channels\.rdio"):
        loaded_from(radio, "channels: {rdio: {frequency: 100.6}}\n")


def test_a_function_in_the_group_is_no_chat_channel(tmp_path: Path) -> None:
    loaded = loaded_from(tmp_path, TELEGRAM_BOT_TOKEN="1:abc")
    found = configured_channels(loaded.settings.channels, loaded.secrets.get)["telegram"]
    plugins = loaded.home / "plugins"
    plugins.mkdir(mode=0o700)
    (plugins / "other.py").write_text('ENTRY_POINTS = {"hermes.channels": {"other": print}}\n')
    (plugins / "other.py").chmod(0o600)
    with pytest.raises(PluginError, match="no chat channel"):
        type(found)(name="other", settings=found.settings).load(loaded.home)
