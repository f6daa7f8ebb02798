"""A group of episodes through the real Atropos: its API server, our environment, a trainer's eyes.

`make test-training` installs the library; with its dependencies it is a gigabyte.
"""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from chat_server import chat_server, writes

from hermes.environments.sandboxing import support
from hermes.gym.scenario import find_scenario
from hermes.gym.scenario_spec import ScenarioSpec
from hermes.gym.training.external_episodes import MASKED_TOKEN

pytest.importorskip("atroposlib", reason="`make test-training` installs it")
pytestmark = pytest.mark.skipif(
    bool(support.no_sandbox_reason()), reason=str(support.no_sandbox_reason())
)
NAME = "config-typo-after-edit"
TEMPLATE = "{% for m in messages %}{{ m['role'] }} {{ m['content'] }}\n{% endfor %}"


def tokenizer_in(folder: Path) -> None:
    """Bytes as tokens: small, and without a download."""
    tokenizers = pytest.importorskip("tokenizers")
    transformers = pytest.importorskip("transformers")
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {letter: number for number, letter in enumerate([*alphabet, "<pad>"])}
    model = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=vocabulary, merges=[]))
    model.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    model.decoder = tokenizers.decoders.ByteLevel()
    whole = transformers.PreTrainedTokenizerFast(tokenizer_object=model, pad_token="<pad>")
    whole.chat_template = TEMPLATE
    whole.save_pretrained(folder)


def free_port() -> int:
    with socket.socket() as asked:
        asked.bind(("127.0.0.1", 0))
        return int(asked.getsockname()[1])


def told(url: str, body: object = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.loads(answer.read())


def until(look: Callable[[], Any], seconds: float, log: Path) -> Any:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            if found := look():
                return found
        except (urllib.error.URLError, ConnectionError):
            pass
        time.sleep(0.2)
    raise AssertionError(log.read_text()[-3000:] if log.exists() else "no log")


def story_of(messages: Sequence[dict[str, Any]]) -> ScenarioSpec:
    for seed in SEEDS:
        spec = find_scenario(NAME).draw_spec(seed)
        if spec.alert.text in messages[1]["content"]:
            return spec
    raise AssertionError("an incident that nobody drew")


SEEDS: list[int] = []


def fixing(messages: Sequence[dict[str, Any]]) -> str:
    """The conversation as its library words it: a turn is an answer of ours in it."""
    turn = sum(message["role"] == "assistant" for message in messages)
    spec = story_of(messages)
    if turn < len(spec.reference):
        return writes("terminal", command=spec.reference[turn])
    return writes("conclude", answer="fix", component=spec.fault.component[0])


@pytest.fixture
def api(tmp_path: Path) -> Iterator[str]:
    port, log = free_port(), tmp_path / "api.log"
    words = [sys.executable, "-m", "atroposlib.cli.run_api", "--host", "127.0.0.1"]
    with log.open("wb") as out:
        process = subprocess.Popen([*words, "--port", str(port)], stdout=out, stderr=out)
    try:
        url = f"http://127.0.0.1:{port}"
        until(lambda: told(url), 60, log)
        yield url
    finally:
        process.terminate()
        process.wait(20)


def test_a_trainer_gets_a_group_of_fixed_incidents(api: str, tmp_path: Path) -> None:
    from hermes.gym.training.external_episodes import IncidentSampler  # noqa: PLC0415 - only where the library is

    sampler = IncidentSampler([find_scenario(NAME)], seed=3)
    SEEDS[:] = [sampler.draw().seed for _ in range(40)]
    tokenizer_in(tmp_path / "tokenizer")
    trainer = {"wandb_group": "g", "wandb_project": "p", "batch_size": 2, "max_token_len": 65536}
    trainer |= {"checkpoint_dir": str(tmp_path), "save_checkpoint_interval": 0}
    told(f"{api}/register", {**trainer, "starting_step": 0, "num_steps": 1})
    with chat_server(fixing) as (address, complaints):
        env = {
            "tokenizer_name": str(tmp_path / "tokenizer"), "use_wandb": "false",
            "rollout_server_url": api, "group_size": "2", "batch_size": "2", "scenarios": NAME,
            "seed": "3", "window": "0.1", "turns": "6", "total_steps": "1",
            "ensure_scores_are_not_same": "false", "max_num_workers": "1", "steps_per_eval": "0",
            "max_token_length": "65536",
        }  # fmt: skip
        options = [word for name, value in env.items() for word in (f"--env.{name}", value)]
        model = {"base_url": address, "model_name": "m", "api_key": "x"}
        options += [word for name, value in model.items() for word in (f"--openai.{name}", value)]
        log = tmp_path / "env.log"
        with log.open("wb") as out:
            process = subprocess.Popen(
                [sys.executable, "-m", "hermes.gym.training.atropos", "serve", *options],
                stdout=out, stderr=out, cwd=tmp_path,
                env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "HF_HUB_OFFLINE": "1"},
            )  # fmt: skip
        try:
            batch = until(lambda: told(f"{api}/batch").get("batch"), 150, log)
        finally:
            process.terminate()
            process.wait(30)
    assert complaints == []
    (group,) = batch
    assert len(group["scores"]) == 2
    assert min(group["scores"]) >= 0.5
    for tokens, masks in zip(group["tokens"], group["masks"], strict=True):
        written = [mask for mask in masks if mask != MASKED_TOKEN]
        assert 0 < len(written) < len(tokens) == len(masks)
