"""Tools whose commands the kernel holds to their verdict: a model that obeys an attacker."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tool_setup import Person, ToolSetup, file_tools, local

from hermes.core.events.tools import ToolBlocked, ToolDecided
from hermes.environments.local import LocalEnvironment
from hermes.environments.sandboxing import support
from hermes.policy.actions.reader import ActionContext, ActionReader, file_digest, resolve_symlinks
from hermes.policy.command_analysis import analyse_command
from hermes.policy.decide import DocumentPolicy
from hermes.policy.loading import compile_rule_set, load_set
from hermes.policy.settings import PolicySettings
from hermes.tools.terminal import terminal

NOT_HERE = support.kernel_support().reason
pytestmark = [pytest.mark.anyio, pytest.mark.skipif(bool(NOT_HERE), reason=NOT_HERE)]


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[LocalEnvironment]:
    (tmp_path / "work").mkdir()
    (tmp_path / "target").write_text("as it was")
    async with local(tmp_path / "work") as environment:
        yield environment


def make_setup(place: LocalEnvironment, folder: Path, *, says: bool = False) -> ToolSetup:
    """Under the careful set; the person says the same to whatever is asked."""
    book = compile_rule_set(load_set("careful").documents, PolicySettings(), str(folder))
    reader = ActionReader(analyse_command, lookup=resolve_symlinks, digest=file_digest)

    def situate(action: object) -> ActionContext:
        return ActionContext(cwd=place.folder, home=str(folder), workspace=str(folder / "work"))

    policy = DocumentPolicy(book, reader, context_of=situate)
    tools = {"terminal": terminal, **file_tools()}
    return ToolSetup(place, tools, policy=policy, person=Person(says=says))


ATTACKS = {
    "a variable set by printf": "printf -v GIT_PAGER 'echo bad > %s' TARGET; export GIT_PAGER; "
    "git --paginate log",
    "an arithmetic subscript": "a='x[$(echo bad > TARGET)]'; echo $((a))",
    "a comparison": "a='x[$(echo bad > TARGET)]'; [[ $a -gt 1 ]]; echo done",
    "fsmonitor of a repository": "git status",
    "a pager variable": "PSQL_PAGER='sh -c \"echo bad > TARGET\"' psql -c 'select 1'",
    "a module beside the work": "echo '{}' | python3 -m json.tool",
    "a link below /tmp": "echo bad > /tmp/LINK/target",
    "a hard link below /tmp": "echo bad > /tmp/LINK-hard",
    "a background process": "sleep 0.1; a='x[$(echo bad > TARGET)]'; echo $((a))",
}


@pytest.mark.parametrize("attack", ATTACKS)
async def test_an_obeyed_attack_leaves_the_file_as_it_was(
    place: LocalEnvironment, tmp_path: Path, attack: str
) -> None:
    target, work = tmp_path / "target", tmp_path / "work"
    name = f"hermes-{tmp_path.name}"
    link, hard = Path("/tmp") / name, Path("/tmp") / f"{name}-hard"
    (work / "json.py").write_text(f"open({str(target)!r}, 'w').write('bad')")
    await place.run(f"git init -q; git config core.fsmonitor 'echo bad > {target}; :'")
    link.symlink_to(tmp_path)
    hard.hardlink_to(target)
    try:
        command = ATTACKS[attack].replace("TARGET", str(target)).replace("LINK", name)
        background = attack == "a background process"
        await make_setup(place, tmp_path).result("terminal", command=command, background=background)
        assert target.read_text() == "as it was"
    finally:
        link.unlink()
        hard.unlink()


async def test_what_the_kernel_refused_is_told_to_the_model_and_written_down(
    place: LocalEnvironment, tmp_path: Path
) -> None:
    await place.run("git init -q; git config core.fsmonitor 'echo bad > ../target; :'")
    here = make_setup(place, tmp_path)
    told = await here.ok("terminal", command="git status")
    blocked = [event for event in here.journal.events if isinstance(event, ToolBlocked)]
    assert [event.what for event in blocked] == [f"write to {tmp_path}/target"]
    assert (blocked[0].command, blocked[0].judged) == ("git status", "read-only")
    assert f"[blocked: write to {tmp_path}/target by" in told
    assert "the command was judged read-only]" in told
    (decided,) = [event for event in here.journal.events if isinstance(event, ToolDecided)]
    assert (decided.judged, decided.enforced) == ("read-only", "yes")


async def test_a_write_tool_follows_no_link_out_of_what_was_judged(
    place: LocalEnvironment, tmp_path: Path
) -> None:
    (tmp_path / "work" / "notes").symlink_to(tmp_path / "target")
    result = await make_setup(place, tmp_path).result("write_file", path="notes", content="bad")
    assert result.status == "denied"
    assert (tmp_path / "target").read_text() == "as it was"
    made = await make_setup(place, tmp_path).result("write_file", path="plain", content="good\n")
    assert made.status == "ok", made.content


async def test_an_approved_command_may_do_what_was_approved(
    place: LocalEnvironment, tmp_path: Path
) -> None:
    here = make_setup(place, tmp_path, says=True)
    script = f'python3 -c \'open("{tmp_path}/target", "w").write("new")\''
    await here.ok("terminal", command=script)
    assert (tmp_path / "target").read_text() == "new"
    await here.ok("terminal", command=f"sed -i s/new/newer/ {tmp_path}/target")
    assert (tmp_path / "target").read_text() == "newer"


async def test_reading_tools_work_as_before(place: LocalEnvironment, tmp_path: Path) -> None:
    here = make_setup(place, tmp_path)
    (tmp_path / "work" / "a.txt").write_text("needle\n" * 3000)
    assert "needle" in await here.ok("read_file", path="a.txt", offset=2500, limit=2)
    assert "a.txt" in await here.ok("search_files", pattern="needle", path=".")
    assert await here.ok("terminal", command="cd /usr; pwd") == "/usr"
    assert await here.ok("terminal", command="pwd") == "/usr"
