"""A stray process that nothing starts again is ended only where it does nothing but listen."""

from pathlib import Path

import pytest

from hermes.app.skills.library import open_library
from hermes.core.incident import AlertFacts
from hermes.environments.sandboxing import support
from hermes.gym.episodes.episode import open_episode
from hermes.gym.episodes.responder_context import open_bare_run, sandbox_rules
from hermes.gym.scenario import find_scenario
from hermes.settings.load import load
from hermes.skills.playbook.commands import PlaybookContext
from hermes.skills.playbook.runner import PlaybookRunner, PlaybookRunResult

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(bool(support.no_sandbox_reason()), reason=str(support.no_sandbox_reason())),
]
STRAY = """\
import socket, sys, time
s = socket.create_server(("127.0.0.1", int(sys.argv[1])))
{more}
while True: time.sleep(9)
"""


async def played_against(
    home: Path, more: str = "", label: str = "http"
) -> tuple[PlaybookRunResult, bool]:
    """How port-taken did against a program that nothing starts again, and whether that still
    runs. `more`: what else the program does; `label`: the kind of the probe that raised it."""
    scenario = find_scenario("port-taken")
    stories = (scenario.draw_spec(seed) for seed in range(50))
    story = next(each for each in stories if "cron" in each.fault.component)
    skill = open_library(load(home=home, variables={})).skills_by_name["port-taken"]
    assert skill.playbook is not None
    text, labels = story.alert.text, {**story.alert.labels, "kind": label}
    facts = AlertFacts(title=story.alert.title, text=text, labels=labels)
    table, path = story.fault.component[0], story.fault.value[0]
    async with (
        open_episode(scenario, story) as episode,
        open_bare_run(episode, sandbox_rules()) as stage,
    ):
        # Another program by hand, in place of the one that its schedule started.
        unit, program = story.alert.labels["service"], STRAY.format(more=more)
        script = (
            f"port=$(grep -o '{path} [0-9]*' {table}); port=${{port##* }}; rm {table}\n"
            "kill $(ss -ltnpH \"sport = :$port\" | sed -n 's/.*pid=\\([0-9]*\\).*/\\1/p')\n"
            f"systemctl stop {unit}; cat > /tmp/held.py <<'EOF'\n{program}EOF\n"
            "(setsid /usr/bin/python3 /tmp/held.py $port < /dev/null > /tmp/held.log 2>&1 &)\n"
            f"sleep 0.5; systemctl start {unit}; sleep 1; cat /tmp/held.log"
        )
        begun = await episode.box.run(script)
        assert begun.code == 0, begun.output
        context = PlaybookContext(stage.execute, stage.bus.publish)
        played = await PlaybookRunner("port-taken", skill.playbook, context).run(facts)
        arguments = "cat /proc/[0-9]*/cmdline | tr '\\0' '\\n'"
        left = await episode.box.run(f"{arguments} | grep -x '/tmp/held[.]py'")  # not grep itself
        return played, bool(left.output.strip())


async def test_an_orphan_that_only_listens_is_ended_for_the_service_that_was_there_first(
    tmp_path: Path,
) -> None:
    played, runs = await played_against(tmp_path)
    assert played.outcome == "applied", played.detail
    assert not runs
    assert "/tmp/held.py" in played.parameters["found"]


@pytest.mark.parametrize(
    "more",
    [
        "o = socket.create_server(('127.0.0.1', 0))",
        "f = open('/tmp/data.bin', 'wb')",
        "import subprocess; subprocess.Popen(['sleep', '600'])",
    ],
    ids=["another-port", "data", "a-child"],
)
async def test_an_orphan_that_does_more_is_left_to_people(more: str, tmp_path: Path) -> None:
    played, runs = await played_against(tmp_path, more)
    assert (played.outcome, runs) == ("declined", True), played.detail


async def test_a_stray_is_left_alone_while_what_answers_at_the_port_is_right(
    tmp_path: Path,
) -> None:
    """Only its unit fails: what holds the port may be its successor."""
    played, runs = await played_against(tmp_path, label="unit")
    assert (played.outcome, runs) == ("declined", True), played.detail
