"""What the scenario builder adds by itself, and what it reports about an incomplete scenario."""

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from hermes.core.errors import SettingsError
from hermes.gym.scenario import Scenario
from hermes.gym.scenario_builder import ScenarioBuilder, build_scenario
from hermes.gym.scenario_spec import FaultTrigger, UnchangedCheck

Draw = Callable[[ScenarioBuilder], None]
Build = Callable[[Draw], Scenario]


@pytest.fixture
def build(tmp_path: Path) -> Build:
    folder = tmp_path / "some-scenario"
    folder.mkdir()
    texts = {"alerts": [f"{{service}} on {{host}} fails, wording {n}" for n in range(8)]}
    (folder / "texts.yaml").write_text(yaml.safe_dump(texts))
    (folder / "service.py.in").write_text("mode = '%%mode%%'\nserve(%%port%%, print)\n")
    return lambda draw: build_scenario(str(folder / "scenario.py"), draw, "process", "a summary")


def complete(build: ScenarioBuilder) -> None:
    app = build.draw_service()
    build.start(app, build.source("service.py.in", mode="live"), port=app.port)
    build.alert("P2")
    build.symptoms(app.http("it answers"))
    build.healthy(app.runs())
    build.collateral(("the program", app.program))
    build.fault(component=(app.name,), mechanism="stopped, not running", value=("x",))
    build.responses(reference=app.restart, relief=("true", "false"))


def test_the_builder_adds_the_neighbour_and_a_restart_as_trigger(build: Build) -> None:
    scenario = build(complete)
    spec = scenario.draw_spec(1)
    (host,) = spec.hosts
    service, neighbour = (unit.path for unit in host.units)
    assert scenario.name == "some-scenario"
    assert spec.cure == (FaultTrigger(restart=(service,)),)
    assert spec.healthy[0] == spec.symptoms[0]
    assert neighbour.removesuffix(".service") in spec.healthy[-1].name
    assert spec.collateral[0] == spec.healthy[-1]
    assert spec.collateral[-1] == UnchangedCheck(name="the program", path=host.files[0].path)
    assert spec.fault.mechanism == ("stopped", "not running")
    assert spec.reference == (f"systemctl restart {service.removesuffix('.service')}",)
    assert spec.relief == ("true", "false")
    assert spec.alert.labels["service"] in spec.alert.text


def test_a_file_of_the_folder_takes_texts_and_a_program_takes_literals(build: Build) -> None:
    text = build(complete).draw_spec(1).hosts[0].files[0].text
    port = build(complete).draw_spec(1).alert.labels["instance"].rpartition(":")[2]
    assert text.endswith(f"mode = 'live'\nserve({port}, print)\n")


def test_an_alert_that_needs_no_fix_has_no_trigger(build: Build) -> None:
    def draw(build: ScenarioBuilder) -> None:
        complete(build)
        build.responses(answer="no-incident")

    assert build(draw).draw_spec(1).cure == ()


def test_a_scenario_without_an_alert_is_named_with_what_it_lacks(build: Build) -> None:
    def draw(build: ScenarioBuilder) -> None:
        build.draw_service()

    with pytest.raises(SettingsError, match=r"some-scenario: .*'alert'"):
        build(draw).draw_spec(1)


def test_traffic_without_a_service_needs_a_port(build: Build) -> None:
    with pytest.raises(SettingsError, match="no service was drawn"):
        build(lambda build: build.traffic("/")).draw_spec(1)
