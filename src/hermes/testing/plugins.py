"""What every notification channel, probe kind, model and tool promises."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import anyio
import pytest

from hermes.app.policy import open_policy
from hermes.core.errors import DeliveryError, ToolError
from hermes.core.events.operations import NotificationKind, NotificationQueued
from hermes.core.messages import Completion, CompletionDelta, Message, ToolSpec
from hermes.core.notifications import NotificationSink
from hermes.core.protocols import Model, StreamsText, Tool
from hermes.environments.local import LocalEnvironment
from hermes.settings.load import load
from hermes.sre.probes.admission import AdmittedProbe, admit_probes
from hermes.sre.probes.evaluation import ProbeVerdict, judge_probe
from hermes.sre.probes.probe import PluginProbe, Probe
from hermes.sre.probes.probe_runner import run_probes
from hermes.sre.settings import ProbeSettings
from hermes.testing.environments import ContractSuite

SEND_TIMEOUT_S = 30.0
TOOL_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
QUESTION = [Message(role="user", text="Answer with the single word: ready")]


class ChannelContract(ContractSuite):
    """Needs the fixtures `sink`, `delivered` (the text of the next message that arrived, empty
    without one) and `unreachable_sink`, whose destination does not exist."""

    def test_it_has_the_name_of_the_sink(self, sink: NotificationSink) -> None:
        assert isinstance(sink.name, str)
        assert sink.name

    @pytest.mark.parametrize("about", get_args(NotificationKind))
    async def test_each_kind_of_notification_arrives(
        self, sink: NotificationSink, delivered: Callable[[], str], about: NotificationKind
    ) -> None:
        await _send(sink, _notification("the disk is full", about=about))
        assert "the disk is full" in delivered()

    async def test_a_repetition_is_marked(
        self, sink: NotificationSink, delivered: Callable[[], str]
    ) -> None:
        await _send(sink, _notification("again"), repeated=True)
        assert "again (repeated)" in delivered()

    @pytest.mark.parametrize(
        "text", ["", "two\nlines\r\nand more", "ünï 🚨", "a\x00b\x1b[31mc\x85", "x" * 100_000]
    )
    async def test_any_text_is_delivered(
        self, sink: NotificationSink, delivered: Callable[[], str], text: str
    ) -> None:
        await _send(sink, _notification(f"title {text[:200]}", text=text))
        assert delivered()

    async def test_an_unreachable_destination_is_a_delivery_error(
        self, unreachable_sink: NotificationSink
    ) -> None:
        with pytest.raises(DeliveryError) as caught:
            await _send(unreachable_sink, _notification("lost"))
        assert str(caught.value)


class ProbeKindContract(ContractSuite):
    """Needs the fixtures `make_probe` (a probe of something that works, and its command) and
    `break_it`, which breaks it."""

    def test_the_command_is_the_same_each_time(
        self, make_probe: Callable[[], tuple[Probe, str]]
    ) -> None:
        _, command = make_probe()
        assert command.strip()
        assert "\0" not in command
        assert make_probe()[1] == command

    async def test_the_policy_finds_that_it_only_reads(
        self, make_probe: Callable[[], tuple[Probe, str]], tmp_path: Path
    ) -> None:
        assert isinstance(await _admit(make_probe(), tmp_path), AdmittedProbe)

    async def test_it_is_fine_while_all_works_and_fails_when_it_is_broken(
        self,
        make_probe: Callable[[], tuple[Probe, str]],
        break_it: Callable[[], object],
        tmp_path: Path,
    ) -> None:
        probe = await _admit(make_probe(), tmp_path)
        well = await _ask(probe, tmp_path)
        assert well.state == "fine", well
        break_it()
        ill = await _ask(probe, tmp_path)
        assert ill.state == "failing", ill
        assert ill.detail


class ModelContract(ContractSuite):
    """Needs the fixture `model`, which answers one question."""

    def test_it_says_its_name_and_window(self, model: Model) -> None:
        assert model.name
        assert model.window > 0

    async def test_an_answer_is_a_message_of_the_assistant(self, model: Model) -> None:
        completion = await model.complete(QUESTION)
        assert completion.message.role == "assistant"
        assert completion.message.text or completion.message.calls
        assert completion.usage.tokens >= 0

    async def test_a_stream_ends_with_the_whole_answer(self, model: Model) -> None:
        if not isinstance(model, StreamsText):
            pytest.skip(f"{model.name} does not stream")
        items = [item async for item in model.stream(QUESTION)]
        *deltas, last = items
        assert isinstance(last, Completion)
        assert all(isinstance(each, CompletionDelta) for each in deltas)
        streamed = "".join(each.text for each in deltas if isinstance(each, CompletionDelta))
        assert streamed == last.message.text


class ToolContract(ContractSuite):
    """Needs the fixture `tool`."""

    def test_its_description_is_complete(self, tool: Tool) -> None:
        assert isinstance(tool.spec, ToolSpec)
        assert TOOL_NAME.fullmatch(tool.spec.name)
        assert tool.spec.description.strip()

    def test_its_parameters_are_one_json_schema(self, tool: Tool) -> None:
        schema = tool.spec.parameters
        assert schema["type"] == "object"
        assert "$ref" not in json.dumps(schema)
        assert set(schema.get("required", ())) <= set(schema.get("properties", {}))

    async def test_arguments_that_do_not_fit_are_an_error_for_the_model(self, tool: Tool) -> None:
        no_context: Any = None  # a misfit is found before the context is used
        with pytest.raises(ToolError):
            await tool(no_context, {"no_such_parameter": 1})


def _notification(
    title: str, *, about: NotificationKind = "declared", text: str = "why: so"
) -> NotificationQueued:
    return NotificationQueued(
        run="watch",
        notice="incident-1:declared:7",
        about=about,
        incident="incident-1",
        sinks=("tested",),
        title=title,
        text=text,
        severity="P1",
    )


async def _send(
    sink: NotificationSink, notice: NotificationQueued, *, repeated: bool = False
) -> None:
    with anyio.fail_after(SEND_TIMEOUT_S):
        await sink.send(notice, repeated)


async def _admit(made: tuple[Probe, str], folder: Path) -> Probe:
    probe, command = made
    fields = {field: getattr(probe, field) for field in Probe.__struct_fields__}
    fields["kind"] = f"tested-{probe.kind}"  # the policy does not decide on built-in kinds
    foreign = PluginProbe(**fields, command=command)
    loaded = load(home=folder / "home", variables={"PATH": PATH, "HOME": str(folder)})
    policy = open_policy(loaded, folder, isolated=False)
    async with _this_host(folder) as environment:
        admitted = await admit_probes([foreign], policy, environment)
    assert not admitted.refused, admitted.refused
    return admitted.probes[0]


async def _ask(probe: Probe, folder: Path) -> ProbeVerdict:
    async with _this_host(folder) as environment:
        result = (await run_probes(environment, [probe]))[probe.name]
    return judge_probe(probe, result, (), ProbeSettings())


def _this_host(folder: Path) -> LocalEnvironment:
    return LocalEnvironment(folder, {"PATH": PATH, "HOME": str(folder), "LANG": "C.UTF-8"})
