"""The Apprise channel: its library, driven against a stand-in of a service."""

from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from hermes.app.channels.delivery_test import send_test_message
from hermes.core.channels import Address
from hermes.core.errors import ChannelFailed, DeliveryError
from hermes.gateway.channels.apprise.runtime import AppriseChannel
from hermes.settings.load import load
from hermes.testing.channels import SendingChannelContract
from hermes.testing.chat_platform import message
from standins.apprise import TOKEN, AppriseStandin

pytestmark = [
    pytest.mark.anyio,
    # Its code for encrypted mail tries a module that Python drops with 3.13.
    pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning"),
]


@pytest.fixture
async def service() -> AsyncIterator[AppriseStandin]:
    standin = AppriseStandin()
    async with standin.serving():
        yield standin
    assert standin.problems == []


class TestAppriseContract(SendingChannelContract):
    @pytest.fixture
    def platform(self, service: AppriseStandin) -> AppriseStandin:
        return service


async def test_a_service_that_took_a_message_does_not_get_it_again(service: AppriseStandin) -> None:
    """Three addresses: the second is refused for now, the third for ever."""
    wrong = service.address.replace(TOKEN, "a-wrong-token-of-it")
    text = message(service.group, "the disk is full")
    async with AppriseChannel(f"{service.address}, {service.address} {wrong}") as channel:
        service.fail_second("rate limit")
        with pytest.raises(DeliveryError) as failure:
            await channel.send(text)
        assert not failure.value.permanent
        assert len(service.posts) == 1
        with pytest.raises(DeliveryError, match="compare APPRISE_URLS") as failure:
            await channel.send(text)
        assert failure.value.permanent
        assert "a-wrong-token" not in str(failure.value)
    assert len(service.posts) == 2


async def test_an_address_that_is_not_understood_is_named_by_its_number() -> None:
    with pytest.raises(ChannelFailed, match=r"address 2 in APPRISE_URLS") as failure:
        async with AppriseChannel("json://127.0.0.1:9/x nonsense://secret-of-mine"):
            pass
    assert failure.value.permanent
    assert "secret-of-mine" not in str(failure.value)


async def test_it_receives_nothing(service: AppriseStandin) -> None:
    async with AppriseChannel(service.address) as channel:
        with anyio.move_on_after(0.05) as scope:
            await anext(channel.listen())
    assert scope.cancelled_caught


async def test_a_configured_channel_sends_a_test_message(
    service: AppriseStandin, tmp_path: Path
) -> None:
    loaded = load(home=tmp_path, variables={"APPRISE_URLS": service.address})
    await send_test_message(loaded, Address("apprise"))
    assert "notifications arrive here" in service.posts[0]["message"]
