"""The examples of docs/how-to/plugins.md work as written: as a package and as a single file."""

import os
import re
import socket
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from hermes.app.policy import open_policy
from hermes.app.tools.tooling import build_tooling, configured_environment
from hermes.core.actions import Action
from hermes.core.errors import SettingsError
from hermes.core.events.operations import NotificationQueued
from hermes.core.messages import Risk, ToolCall
from hermes.core.plugins import outside_plugins, plugin_problems
from hermes.environments.local import LocalEnvironment
from hermes.gateway.sinks import open_sinks
from hermes.settings.edit import set_value
from hermes.settings.load import LoadedSettings, load
from hermes.sre.probes.admission import admit_probes
from hermes.sre.probes.evaluation import ProbeVerdict, judge_probe
from hermes.sre.probes.probe_file import load_probes
from hermes.sre.probes.probe_runner import run_probes
from hermes.sre.settings import ProbeSettings

pytestmark = pytest.mark.anyio

PAGE = (Path(__file__).parents[1] / "docs/how-to/plugins.md").read_text("utf-8")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

VARIABLES = {"PATH": PATH, "OPENROUTER_API_KEY": "sk-or-example"}  # without a model: no tools


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


PYTHON = blocks("python")
(TABLE,) = [each for each in PYTHON if each.startswith("ENTRY_POINTS")]
(SUITE,) = [each for each in PYTHON if each.startswith("# test_example.py")]
MODULE = "\n".join(each for each in PYTHON if each not in (TABLE, SUITE))
YAML = {name: text for text in blocks("yaml") for name in re.findall(r"kind: \w+|nice", text)}


def install_package(folder: Path) -> None:
    points = tomllib.loads(blocks("toml")[0])["project"]["entry-points"]
    info = folder / "hermes_example-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: hermes-example\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "".join(
            f"[{group}]\n" + "".join(f"{name} = {target}\n" for name, target in names.items())
            for group, names in points.items()
        )
    )
    (folder / "hermes_example.py").write_text(MODULE)


def install_file(home: Path, text: str = f"{MODULE}\n{TABLE}", name: str = "example.py") -> Path:
    (home / "plugins").mkdir(mode=0o700, parents=True, exist_ok=True)
    home.chmod(0o700)
    file = home / "plugins" / name
    file.write_text(text)
    file.chmod(0o600)
    return file


@pytest.fixture(params=["package", "file"])
def home(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    if request.param == "file":
        install_file(home)
    else:
        install_package(tmp_path / "installed")
        monkeypatch.syspath_prepend(str(tmp_path / "installed"))
        monkeypatch.delitem(sys.modules, "hermes_example", raising=False)
    return home


def loaded_from(home: Path, config: str = "") -> LoadedSettings:
    (home / "config.yaml").write_text(config)
    return load(home=home, variables=VARIABLES | {"HOME": str(home)})


def use_of(tool: str) -> Action:
    return Action(
        call=ToolCall("c", tool, {}),
        risk=Risk.CHANGE,
        run="r",
        origin="cli",
        environment="local",
        target="here",
        isolated=False,
    )


def test_the_tool_is_active_once_installed_and_the_rules_ask_about_it(home: Path) -> None:
    loaded = loaded_from(home)
    tooling = build_tooling(loaded)
    found = tooling.catalogue.tools["uptime"]
    assert found.spec.risk is Risk.CHANGE  # it declares that it only reads
    assert not tooling.problems
    folder = home.parent
    assert open_policy(loaded, folder, isolated=False).decide(use_of("uptime")).verdict == "ask"
    (home / "policies").mkdir()
    (home / "policies" / "uptime.yaml").write_text(YAML["kind: ActionPolicy"])
    assert open_policy(loaded, folder, isolated=False).decide(use_of("uptime")).verdict == "allow"
    without = loaded_from(home, "tools: {disabled: [uptime]}\n")
    assert "uptime" not in build_tooling(without).catalogue.tools


def test_the_agent_may_not_write_plug_ins(home: Path) -> None:
    loaded = loaded_from(home)
    call = ToolCall("c", "write_file", {"path": f"{home}/plugins/mine.py", "content": "x"})
    action = Action(
        call=call,
        risk=Risk.CHANGE,
        run="r",
        origin="cli",
        environment="local",
        target="here",
        isolated=False,
    )
    assert open_policy(loaded, home, isolated=False).decide(action).verdict == "deny"


async def test_a_notification_reaches_the_channel(home: Path) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        server.settimeout(10)
        port = str(server.getsockname()[1])
        loaded = loaded_from(home, YAML["kind: syslog"].replace("5514", port))
        notices = loaded.settings.sre.notices
        ((_, _), (sink, accepts)) = open_sinks(notices, home=home, secret={}.get)
        assert (sink.name, accepts.severity) == ("office", "P1")
        await sink.send(
            NotificationQueued(
                run="w",
                notice="n",
                about="declared",
                incident="i",
                sinks=("office",),
                title="the disk is full",
                text="",
                severity="P1",
            ),
            False,
        )
        assert "the disk is full" in server.recv(4096).decode()


def test_a_sink_in_the_group_of_earlier_versions_is_still_found(tmp_path: Path) -> None:
    home = tmp_path / "home"
    table = TABLE.replace("hermes.channels", "hermes.notifications")
    install_file(home, f"{MODULE}\n{table}")
    notices = loaded_from(home, YAML["kind: syslog"]).settings.sre.notices
    sinks = open_sinks(notices, home=home, secret={}.get)
    assert [sink.name for sink, _ in sinks] == ["log", "office"]
    assert list(plugin_problems(home)) == []


async def asked(home: Path, folder: Path) -> ProbeVerdict:
    policy = open_policy(loaded_from(home), folder, isolated=False)
    probes = load_probes(home / "probes.yaml", home) or ()
    async with LocalEnvironment(folder, {"PATH": PATH, "HOME": str(folder)}) as environment:
        admitted = await admit_probes(probes, policy, environment)
        assert not admitted.refused
        results = await run_probes(environment, admitted.probes)
    return judge_probe(admitted.probes[0], results["mail-spool"], (), ProbeSettings())


async def test_the_probe_is_admitted_and_run(home: Path, tmp_path: Path) -> None:
    text = YAML["kind: spool"].replace("/var/spool/mail", str(tmp_path / "spool"))
    (home / "probes.yaml").write_text(text)
    assert (await asked(home, tmp_path)).state == "unknown"
    (tmp_path / "spool").mkdir()
    assert (await asked(home, tmp_path)).detail == "0 files wait"
    for number in range(51):
        (tmp_path / "spool" / str(number)).touch()
    assert (await asked(home, tmp_path)).state == "failing"


async def test_commands_run_in_the_environment_with_its_settings(home: Path) -> None:
    loaded = loaded_from(home, YAML["nice"])
    async with configured_environment(loaded, home.parent) as environment:
        assert environment.name == "nice"
        niceness = min(19, os.nice(0) + 15)
        assert (await environment.run("nice")).output == f"{niceness}\n"


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ("terminal:\n  nice:\n    levl: 3\n", r"config.yaml:3:5: .*terminal.nice.levl.*level"),
        ("terminal:\n  nice:\n    level: low\n", r"config.yaml:3:5: terminal.nice.level: expected"),
        (
            "sre:\n  notices:\n    sinks:\n    - kind: syslog\n      syslog: {hst: x}\n",
            r"config.yaml:5:16: .*'hst'; did you mean host\?",
        ),
        (
            "sre:\n  notices:\n    sinks:\n    - kind: syslog\n    - kind: sylog\n",
            r"config.yaml:5:7: .*no notification channel 'sylog'; did you mean syslog\? there are",
        ),
    ],
)
def test_a_mistake_in_its_settings_is_reported_with_line_and_suggestion(
    home: Path, config: str, problem: str
) -> None:
    with pytest.raises(SettingsError, match=problem):
        loaded_from(home, config)


def test_its_settings_can_be_set_by_command_and_variable(home: Path) -> None:
    set_value(home, "terminal.nice.level", "7")
    assert load(home=home, variables={}).settings.terminal.nice.level == 7  # type: ignore[attr-defined]
    changed = load(home=home, variables={"HERMES_TERMINAL__NICE__LEVEL": "8"}).settings
    assert changed.terminal.nice.level == 8  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("probe", "problem"),
    [
        ("kind: spol", "probes.yaml:2: no probes named 'spol'; did you mean spool"),
        ("kind: spool, spool: {foldr: /}", "probes.yaml:2: foldr is not known here; did you mean"),
        ("kind: spool", "probes.yaml:2: folder is missing"),
    ],
)
def test_a_mistake_in_a_probe_is_reported_with_its_line(
    home: Path, probe: str, problem: str
) -> None:
    (home / "probes.yaml").write_text(f"probes:\n  - {{name: mail-spool, {probe}}}\n")
    with pytest.raises(SettingsError, match=re.escape(problem)):
        load_probes(home / "probes.yaml", home)


BROKEN = {
    "import": (lambda text: f"import no_such_package\n{text}", "ModuleNotFoundError"),
    "syntax": (lambda text: f"{text}\n)(", "SyntaxError"),
    "exit": (lambda text: f"raise SystemExit(3)\n{text}", "SystemExit"),
    "no table": (lambda text: text.replace("ENTRY_POINTS", "POINTS"), "it needs a table such as"),
}


@pytest.mark.parametrize("how", BROKEN)
async def test_a_broken_file_is_reported_and_the_rest_works(tmp_path: Path, how: str) -> None:
    change, cause = BROKEN[how]
    home = tmp_path / "home"
    install_file(home, change(f"{MODULE}\n{TABLE}"))
    loaded = loaded_from(home, YAML["kind: syslog"])
    assert cause in "\n".join(loaded.warnings)
    reported: list[str] = []
    sinks = open_sinks(
        loaded.settings.sre.notices, home=home, secret={}.get, report=reported.append
    )
    assert [sink.name for sink, _ in sinks] == ["log"]
    assert "'office' is not used" in reported[0]
    assert "terminal" in build_tooling(loaded).catalogue.tools
    (home / "probes.yaml").write_text(YAML["kind: spool"])
    verdict = await asked(home, tmp_path)
    assert verdict.state == "unknown"
    assert "the plug-in is broken" in verdict.detail
    assert any(cause in each for each in plugin_problems(home))


@pytest.mark.parametrize("where", ["home", "plugins", "plugins/example.py"])
def test_a_file_that_others_can_write_is_not_run(tmp_path: Path, where: str) -> None:
    home = tmp_path / "home"
    marker = tmp_path / "ran"
    install_file(home, f"open({str(marker)!r}, 'w').close()\nENTRY_POINTS = {{}}\n")
    unsafe = home if where == "home" else home / where
    unsafe.chmod(unsafe.stat().st_mode | 0o020)
    assert f"{unsafe} can be written by other users" in next(plugin_problems(home))
    assert not marker.exists()
    unsafe.chmod(unsafe.stat().st_mode & ~0o020)
    assert list(plugin_problems(home)) == []
    assert marker.exists()


def test_a_name_that_is_taken_and_a_wrong_type_are_reported(tmp_path: Path) -> None:
    home = tmp_path / "home"
    install_file(home)
    install_file(home, f"{MODULE}\n{TABLE}", "second.py")
    wrong = 'ENTRY_POINTS = {"hermes.tools": {"terminal": print, "seven": 7, "dump": print}}\n'
    install_file(home, wrong, "wrong.py")
    problems = "\n".join(plugin_problems(home))
    assert "second.py: the name uptime in hermes.tools is taken by" in problems
    assert "wrong.py: the name terminal in hermes.tools is taken by Hermes itself" in problems
    assert "seven in hermes.tools is int, which cannot be called" in problems
    assert outside_plugins("tools", home)["uptime"].origin.endswith("example.py")
    tooling = build_tooling(loaded_from(home))
    assert any("dump is not a tool" in each for each in tooling.problems)
    assert "uptime" in tooling.catalogue.tools


@pytest.fixture
def run_hermes(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    install_package(tmp_path / "installed")
    (tmp_path / "home").mkdir(mode=0o700)
    path = ":".join([str(tmp_path / "installed"), *sys.path])

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *words],
            env={
                "HERMES_HOME": str(tmp_path / "home"),
                "HOME": str(tmp_path),
                "NO_COLOR": "1",
                "PATH": os.environ["PATH"],
                "PYTHONPATH": path,
            },
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=400,
        )

    return run


def test_the_model_answers(run_hermes: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    done = run_hermes("-m", "hermes.cli", "chat", "-q", "hello", "-m", "parrot:grey", "--quiet")
    assert done.stdout == "hello\n", done.stderr


def test_a_watch_runs_and_doctor_reports_beside_a_broken_plug_in(
    run_hermes: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    home = tmp_path / "home"
    install_file(home, "import no_such_package  # brings matrix\n", "matrix.py")
    (home / "config.yaml").write_text("sre: {notices: {sinks: [{kind: matrix}]}}\n")
    (home / "probes.yaml").write_text("probes: [{name: t, kind: command, what: 'true'}]\n")
    done = run_hermes("-m", "hermes.cli", "watch", "--once", "--model", "none", "--no-listen")
    assert done.returncode == 0, done.stderr
    assert "'matrix' is not used" in done.stderr
    doctor = run_hermes("-m", "hermes.cli", "doctor", "--offline")
    assert "matrix.py: ModuleNotFoundError: No module named 'no_such_package'" in doctor.stdout


def test_the_suites_run_on_the_examples(
    run_hermes: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    (tmp_path / "test_example.py").write_text(SUITE)
    done = run_hermes("-m", "pytest", "-q", "-p", "no:cacheprovider", "test_example.py")
    assert done.returncode == 0, done.stdout[-3000:]
    assert "failed" not in done.stdout


def test_a_plug_in_that_cannot_be_loaded_takes_no_name_from_another(tmp_path: Path) -> None:
    home = tmp_path / "home"
    install_file(home, 'ENTRY_POINTS = {"hermes.tools": {"uptime": 5}}\n', "a_broken.py")
    install_file(home)
    assert outside_plugins("tools", home)["uptime"].origin.endswith("example.py")
    problems = list(plugin_problems(home))
    assert len(problems) == 1
    assert "a_broken.py: uptime in hermes.tools is int" in problems[0]
