"""The built-in channels keep the contract that plug-ins are tested with."""

from collections.abc import Callable, Iterator
from email.header import decode_header, make_header
from pathlib import Path

import pytest

from hermes.core.notifications import ChannelOpening, NotificationSink
from hermes.gateway.sinks import TerminalSink, open_log, open_ntfy, open_webhook
from hermes.sre.settings import SinkSettings
from hermes.testing import ChannelContract
from notice_server import NoticeServer, door

NOBODY = "http://127.0.0.1:9/nobody"


def opening(folder: Path, **settings: str) -> ChannelOpening:
    return ChannelOpening("tested", SinkSettings(**settings), folder, {}.get)


class TestWebhook(ChannelContract):
    @pytest.fixture
    def server(self) -> Iterator[NoticeServer]:
        with door() as opened:
            yield opened

    @pytest.fixture
    def sink(self, server: NoticeServer, tmp_path: Path) -> NotificationSink:
        return open_webhook(opening(tmp_path, kind="webhook", url=server.url))

    @pytest.fixture
    def delivered(self, server: NoticeServer) -> Callable[[], str]:
        return lambda: server.bodies[-1].decode()

    @pytest.fixture
    def unreachable_sink(self, tmp_path: Path) -> NotificationSink:
        return open_webhook(opening(tmp_path, kind="webhook", url=NOBODY))


class TestNtfy(TestWebhook):
    @pytest.fixture
    def sink(self, server: NoticeServer, tmp_path: Path) -> NotificationSink:
        return open_ntfy(opening(tmp_path, kind="ntfy", url=server.url))

    @pytest.fixture
    def delivered(self, server: NoticeServer) -> Callable[[], str]:
        return lambda: str(make_header(decode_header(server.headers[-1]["Title"])))


class TestLog(ChannelContract):
    @pytest.fixture
    def sink(self, tmp_path: Path) -> NotificationSink:
        return open_log(opening(tmp_path, kind="log", path="notices.log"))

    @pytest.fixture
    def delivered(self, tmp_path: Path) -> Callable[[], str]:
        return (tmp_path / "notices.log").read_text

    @pytest.fixture
    def unreachable_sink(self, tmp_path: Path) -> NotificationSink:
        (tmp_path / "folder").mkdir()
        return open_log(opening(tmp_path, kind="log", path="folder"))


class TestTerminal(ChannelContract):
    @pytest.fixture
    def printed(self) -> list[str]:
        return []

    @pytest.fixture
    def sink(self, printed: list[str]) -> NotificationSink:
        return TerminalSink(printed.append)

    @pytest.fixture
    def delivered(self, printed: list[str]) -> Callable[[], str]:
        return lambda: printed[-1]

    @pytest.fixture
    def unreachable_sink(self, tmp_path: Path) -> NotificationSink:
        gone = (tmp_path / "gone").open("w")
        gone.close()
        return TerminalSink(gone.write)
