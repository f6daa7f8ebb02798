"""What closed sessions of chats leave behind: nothing that grows with turns but short records."""

import asyncio
import gc
from collections import Counter
from pathlib import Path

import anyio
import pytest
from chat_setup import ChatGateway, chat_settings, open_gateway, said, says

from hermes.agent.conversation import Conversation
from hermes.agent.session import ConversationSession
from hermes.app.chats.worker import SessionWorker
from hermes.core.channels import OutgoingMessage
from hermes.gateway.settings import TelegramSettings

pytestmark = pytest.mark.anyio

PEOPLE = tuple(range(1, 6))
ROUNDS, FIRST_ROUNDS = 5, 2
"""In the first rounds sessions are opened and opened again, for which modules are loaded."""
RELEASED = (SessionWorker, Conversation, ConversationSession)
KEPT_BY_THE_TEST = {OutgoingMessage}


async def take_round(gateway: ChatGateway, number: int) -> None:
    """One turn of every chat, until all of their sessions are closed again."""
    for person in PEOPLE:
        gateway.channel.receive(said(f"How is host {number}?", str(person)))
        await gateway.channel.wait_for(f"answer {number}-{person}.")
    while any(gateway.service.running_worker(f"telegram:{each}") for each in PEOPLE):  # noqa: ASYNC110 - no event
        await anyio.sleep(0.01)


async def wait_and_count(earlier: Counter[type]) -> Counter[type]:
    """Once nothing of a session is left: its tasks may end a little later than it is closed."""
    with anyio.move_on_after(60):
        while any(count_objects()[each] > earlier[each] for each in RELEASED):  # noqa: ASYNC110 - no event
            await anyio.sleep(0.05)
    return count_objects()


def count_objects() -> Counter[type]:
    gc.collect()
    return Counter(type(each) for each in gc.get_objects())


async def test_closed_sessions_leave_no_objects_behind(tmp_path: Path) -> None:
    replies = [says(f"answer {n}-{person}.") for n in range(ROUNDS) for person in PEOPLE]
    settings = TelegramSettings(allowed_users=PEOPLE)
    earlier = count_objects()  # other tests of this process may have kept some
    async with open_gateway(chat_settings(tmp_path, replies), settings=settings) as gateway:
        gateway.context.idle_close_s = 0.01
        for number in range(FIRST_ROUNDS):
            await take_round(gateway, number)
        before = await wait_and_count(earlier)
        for number in range(FIRST_ROUNDS, ROUNDS):
            await take_round(gateway, number)
        after = await wait_and_count(earlier)
    assert [after[each] - earlier[each] for each in RELEASED] == [0, 0, 0]
    turns = len(PEOPLE) * (ROUNDS - FIRST_ROUNDS)
    grown = {kind: count for kind, count in (after - before).items() if count >= turns}
    ours = {kind for kind in grown if kind.__module__.startswith("hermes.")}
    assert ours <= KEPT_BY_THE_TEST, grown
    assert asyncio.Task not in grown


async def test_the_session_idle_for_longest_is_closed_when_too_many_are_open(
    tmp_path: Path,
) -> None:
    writers = (1, 2, 3, 2, 1)
    replies = [says(f"answer {number}.") for number in range(len(writers))]
    settings = TelegramSettings(allowed_users=PEOPLE)
    runs: dict[int, set[str]] = {}
    async with open_gateway(chat_settings(tmp_path, replies), settings=settings) as gateway:
        gateway.context.max_open = 2
        for number, person in enumerate(writers):
            gateway.channel.receive(said(f"How is host {number}?", str(person)))
            await gateway.channel.wait_for(f"answer {number}.")
            runs.setdefault(person, set()).add(open_workers(gateway)[person].run_id)
            while not open_workers(gateway)[person].may_close:  # noqa: ASYNC110 - no event
                await anyio.sleep(0.01)
            expected = {0: {1}, 1: {1, 2}, 2: {2, 3}, 3: {2, 3}, 4: {1, 2}}[number]
            assert open_workers(gateway).keys() == expected
    assert {person: len(own) for person, own in runs.items()} == {1: 1, 2: 1, 3: 1}


def open_workers(gateway: ChatGateway) -> dict[int, SessionWorker]:
    found = {each: gateway.service.running_worker(f"telegram:{each}") for each in PEOPLE}
    return {each: one for each, one in found.items() if one is not None and not one.closing}
