"""States of real files: what is read, what is left out, and that nothing is read twice."""

import ast
import base64
import json
import os
import shlex
import shutil
import zlib
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import anyio
import pytest

from hermes.core.errors import EnvironmentFailed
from hermes.declared.collectors import host_program
from hermes.declared.collectors.collect import (
    CollectOptions,
    collect_local_state,
    collect_state,
    is_secret_file,
)
from hermes.declared.collectors.readers import CommandReader, RunCommand
from hermes.declared.revert import RELOAD_UNITS, RevertPlan, order_changes, plan_revert
from hermes.declared.state import LENGTH, Item, ItemId, State, StateChange, compare
from hermes.declared.store import StateStore

pytestmark = pytest.mark.anyio


async def run(script: str, stdin: bytes) -> tuple[int, bytes]:
    done = await anyio.run_process(["sh", "-c", script], input=stdin, check=False)
    return done.returncode, done.stdout


async def run_without_python(script: str, stdin: bytes) -> tuple[int, bytes]:
    """`sh` and the programs of busybox alone."""
    command = f"PATH=/nonexistent; exec {shutil.which('busybox')} sh -c {shlex.quote(script)}"
    done = await anyio.run_process(["sh", "-c", command], input=stdin, check=False)
    return done.returncode, done.stdout


@pytest.fixture
def store(tmp_path: Path) -> StateStore:
    return StateStore(tmp_path / "states")


@pytest.fixture
def host(tmp_path: Path) -> Path:
    root = tmp_path / "host"
    (root / "app").mkdir(parents=True)
    (root / "app/app.conf").write_text("port = 8080\n")
    (root / "app/empty").touch()
    (root / "app/access.log").write_text("GET /\n")
    (root / "app/current").symlink_to("app.conf")
    (root / "app/secrets.env").write_text("DB_PASSWORD=hunter2hunter2\n")
    (root / "app/big.bin").write_bytes(bytes(range(256)) * 2048)
    (root / "app/name with space 'and' \"quotes\"").write_text("x\n")
    return root


def options(root: Path, **more: object) -> CollectOptions:
    return CollectOptions(roots=(str(root),), server_settings=False, **more)  # type: ignore[arg-type]


def files_of(state: State, root: Path) -> dict[str, tuple[str, str]]:
    return {
        id.key.removeprefix(f"{root}/"): (item.attributes["type"], item.digest[:8])
        for id, item in state.items.items()
        if id.kind == "file" and id.key.startswith(f"{root}/")
    }


async def test_here_over_a_runner_and_without_python_the_state_is_the_same(
    host: Path, store: StateStore
) -> None:
    here = await collect_local_state(run, known=None, store=store, options=options(host))
    there = await collect_state(run, known=None, store=store, options=options(host))
    assert files_of(here, host) == files_of(there, host)
    assert [each for each in compare(here, there) if each.item.key.startswith(str(host))] == []
    assert ItemId("user", "root") in here.items
    assert any(id.kind == "mount" for id in here.items)
    assert any(id.kind == "kernel-setting" for id in here.items)
    if shutil.which("busybox"):
        plain = await collect_state(
            run_without_python, known=None, store=store, options=options(host)
        )
        assert files_of(plain, host) == files_of(here, host)


async def test_what_a_supervisor_notes_about_a_service_is_no_state(
    host: Path, store: StateStore
) -> None:
    folder = host / "service/web/supervise"
    folder.mkdir(parents=True)
    (folder / "status").write_bytes(b"run")
    (host / "service/web/run").write_text("exec web\n")
    for runner in (run, run_without_python) if shutil.which("busybox") else (run,):
        state = await collect_state(runner, known=None, store=store, options=options(host))
        found = files_of(state, host)
        assert "service/web/run" in found
        assert not [path for path in found if "supervise" in path]


async def test_the_content_of_secret_large_and_data_files_is_not_kept(
    host: Path, store: StateStore
) -> None:
    state = await collect_state(run, known=None, store=store, options=options(host))
    items = {id.key.removeprefix(f"{host}/app/"): item for id, item in state.items.items()}
    assert store.content(items["app.conf"].digest) == b"port = 8080\n"
    assert items["secrets.env"].digest
    assert store.content(items["secrets.env"].digest) is None
    assert items["big.bin"].digest
    assert store.content(items["big.bin"].digest) is None
    assert items["access.log"].digest == ""
    store.save(state)
    kept = b"".join(each.read_bytes() for each in store.folder.rglob("*") if each.is_file())
    assert b"hunter2" not in kept
    assert is_secret_file("/etc/shadow")
    assert not is_secret_file("/etc/hosts")


async def test_no_content_is_read_twice(host: Path, store: StateStore) -> None:
    first = await collect_local_state(run, known=None, store=store, options=options(host))
    later = State(host=first.host, at=first.at.replace(year=first.at.year + 1), items=first.items)
    for path in (host / "app").iterdir():
        if path.is_file() and not path.is_symlink():
            path.chmod(0o644)  # readable, but see below
    asked: list[str] = []

    async def record(script: str, stdin: bytes) -> tuple[int, bytes]:
        """Files that other programs of this machine name may be read meanwhile; they are not ours
        to count."""
        is_request = "python3 -IS" in script
        fields = json.loads(zlib.decompress(base64.b64decode(stdin))) if is_request else {}
        paths = [path for path, _ in fields.get("contents", ())]
        asked.extend(path for path in paths if path.startswith(f"{host}/"))
        return await run(script, stdin)

    again = await collect_state(record, known=first, store=store, options=options(host))
    assert asked, "files that changed within the last seconds are read again"
    asked.clear()
    known = State(host=again.host, at=later.at, items=again.items)
    await collect_state(record, known=known, store=store, options=options(host))
    assert asked == []


async def test_an_edit_that_keeps_size_and_time_is_seen(host: Path, store: StateStore) -> None:
    conf = host / "app/app.conf"
    before = await collect_local_state(run, known=None, store=store, options=options(host))
    found = conf.stat()
    conf.write_text("port = 9090\n")
    os.utime(conf, ns=(found.st_atime_ns, found.st_mtime_ns))
    after = await collect_local_state(run, known=before, store=store, options=options(host))
    (change,) = [each for each in compare(before, after) if str(host) in each.item.key]
    assert change.item.key == str(conf)
    assert change.differing == ("content",)
    assert change.at is not None


async def test_many_files_come_in_several_answers(tmp_path: Path, store: StateStore) -> None:
    root = tmp_path / "many"
    for folder in range(10):
        (root / f"{folder}").mkdir(parents=True)
        for number in range(60):
            (root / f"{folder}/{number}.conf").write_bytes(os.urandom(120))
    calls = []

    async def count(script: str, stdin: bytes) -> tuple[int, bytes]:
        code, output = await run(script, stdin)
        calls.append(len(output))
        return code, output

    here = await collect_local_state(run, known=None, store=store, options=options(root))
    there = await collect_state(
        count, known=None, store=store, options=options(root, max_output_bytes=20_000)
    )
    assert files_of(here, root) == files_of(there, root)
    assert len(files_of(there, root)) == 610
    assert max(calls) < 25_000
    assert len(calls) > 6


async def test_a_folder_of_data_and_a_limit_of_files_are_said(
    tmp_path: Path, store: StateStore
) -> None:
    root = tmp_path / "host"
    for number in range(30):
        (root / "data").mkdir(parents=True, exist_ok=True)
        (root / f"data/{number}").touch()
    (root / "etc").mkdir()
    (root / "etc/a.conf").touch()
    state = await collect_local_state(
        run, known=None, store=store, options=options(root, max_folder_entries=20)
    )
    assert set(files_of(state, root)) == {"data", "etc", "etc/a.conf"}
    assert any(each.startswith(f"{root}/data: 30 entries") for each in state.left_out)
    few = await collect_local_state(
        run, known=None, store=store, options=options(root, max_files=10)
    )
    assert any("the limit of 10 files" in each for each in few.left_out)
    full = await collect_local_state(run, known=None, store=store, options=options(root))
    changed = [each for each in compare(full, few) if each.item.key.startswith(str(root))]
    assert changed == [], "what was left out is not reported as removed"


async def test_the_files_of_a_database_are_left_out_and_its_settings_are_not(
    host: Path, store: StateStore
) -> None:
    data = host / "pgdata"
    (data / "global").mkdir(parents=True)
    (data / "PG_VERSION").write_text("15\n")
    (data / "postgresql.auto.conf").write_text("work_mem = '4MB'\n")
    (data / "global/2677").write_bytes(b"before")
    before = await collect_local_state(run, known=None, store=store, options=options(host))
    (data / "global/2677").write_bytes(b"after it")
    (data / "postgresql.auto.conf").write_text("work_mem = '8MB'\n")
    after = await collect_local_state(run, known=before, store=store, options=options(host))
    found = [each.item.key for each in compare(before, after) if str(host) in each.item.key]
    assert found == [str(data / "postgresql.auto.conf")]
    assert f"{data}/global: it belongs to a database" in after.left_out


async def test_a_replaced_program_of_a_running_service_is_a_change(
    host: Path, tmp_path: Path, store: StateStore
) -> None:
    program = tmp_path / "worker"
    shutil.copy(str(shutil.which("sleep")), program)
    async with await anyio.open_process([program, "600"], start_new_session=True) as service:
        try:
            before = await collect_local_state(run, known=None, store=store, options=options(host))
        finally:
            service.kill()
    program.unlink()
    program.write_bytes(b"truncated")
    after = await collect_local_state(run, known=before, store=store, options=options(host))
    assert [each.verb for each in compare(before, after) if each.item.key == str(program)] == [
        "changed"
    ]


def test_the_program_for_other_hosts_runs_on_python_3_7() -> None:
    """Which has no `set[str]()`, a call that newer ones accept."""
    tree = ast.parse(Path(host_program.__file__).read_text(), feature_version=(3, 7))
    called = [each.func for each in ast.walk(tree) if isinstance(each, ast.Call)]
    typed = [each.value for each in called if isinstance(each, ast.Subscript)]
    assert [each.id for each in typed if isinstance(each, ast.Name)] == []


def test_a_server_that_does_not_run_has_lost_no_settings() -> None:
    at = datetime.now(UTC)
    limit, other = ItemId("setting", "redis/6379/maxmemory"), ItemId("setting", "redis/7000/save")
    both = State(host="a", at=at, items={limit: Item("1"), other: Item("2")})
    stopped = State(host="a", at=at, items={other: Item("3")})
    assert [each.item for each in compare(both, stopped)] == [other]
    assert [each.item for each in compare(stopped, both)] == [other]


async def test_files_that_change_all_the_time_are_learned(host: Path, store: StateStore) -> None:
    state = await collect_local_state(run, known=None, store=store, options=options(host))
    reported = []
    for number in range(12):
        (host / "app/empty").write_text(f"{number}\n")
        new = await collect_local_state(run, known=state, store=store, options=options(host))
        reported.append(
            [each.item.key for each in compare(state, new) if str(host) in each.item.key]
        )
        state = new
    assert reported[0] == [f"{host}/app/empty"]
    assert reported[-1] == reported[-5] == []
    (host / "app/empty").chmod(0o600)
    new = await collect_local_state(run, known=state, store=store, options=options(host))
    (change,) = [each for each in compare(state, new) if str(host) in each.item.key]
    assert change.differing == ("mode",)


def revert_script(plans: Sequence[RevertPlan], store: StateStore, folder: str) -> tuple[str, bytes]:
    """One script for `sh`, and its input, that stages all content and runs all steps."""
    lines = [
        f"{path} {base64.b64encode(store.content(digest) or b'').decode()}"
        for plan in plans
        for path, digest in plan.staged.items()
    ]
    script = (
        f"umask 077; mkdir -p {shlex.quote(folder)} && "
        'while read -r path data; do printf %s "$data" | base64 -d > "$path" || exit 1; done\n'
    )
    steps = dict.fromkeys(step.command for plan in plans for step in plan.steps)
    reloads = [each for each in steps if each == RELOAD_UNITS]
    commands = [*(each for each in steps if each != RELOAD_UNITS), *reloads]
    script += "\n".join(f"{{ {command}; }} || exit 1" for command in commands)
    return script, "\n".join([*lines, ""]).encode()


async def _revert_all(
    before: State, after: State, store: StateStore, folder: Path, runner: RunCommand
) -> list[str]:
    changes = [each for each in compare(before, after) if "/host/" in each.item.key]
    plans = [plan_revert(each, store, str(folder)) for each in order_changes(changes)]
    script, stdin = revert_script([each for each in plans if each.steps], store, str(folder))
    code, output = await runner(script, stdin)
    assert code == 0, output
    return [each.impossible for each in plans if each.impossible]


async def test_every_kind_of_change_of_a_file_is_reverted(
    host: Path, store: StateStore, tmp_path: Path
) -> None:
    gone = host / "app/gone/deep"
    gone.mkdir(parents=True)
    (gone / "x.conf").write_text("x\n")
    (gone / "x.conf").chmod(0o640)
    kept = await collect_local_state(run, known=None, store=store, options=options(host))
    (host / "app/app.conf").write_text("port = 80\n")
    (host / "app/app.conf").chmod(0o600)
    (host / "app/current").unlink()
    (host / "app/current").symlink_to("elsewhere")
    (host / "app/empty").unlink()
    (host / "app/empty").symlink_to("app.conf")
    shutil.rmtree(host / "app/gone")
    (host / "new/folder").mkdir(parents=True)
    (host / "new/folder/file").write_bytes(b"\0new")
    (host / "app/secrets.env").write_text("DB_PASSWORD=other\n")
    if os.getuid() == 0:
        os.chown(host / "app/big.bin", 1234, 1234)
    broken = await collect_local_state(run, known=kept, store=store, options=options(host))
    impossible = await _revert_all(kept, broken, store, tmp_path / "staged", run)
    assert len(impossible) == 1
    assert "secrets.env was not kept" in impossible[0]
    now = await collect_local_state(run, known=broken, store=store, options=options(host))
    left = [each.item.key for each in compare(kept, now) if str(host) in each.item.key]
    assert left == [f"{host}/app/secrets.env"]


@pytest.mark.parametrize("is_live", [False, True])
async def test_the_undo_of_each_step_brings_the_change_back(
    host: Path, store: StateStore, tmp_path: Path, is_live: bool
) -> None:
    before = await collect_local_state(run, known=None, store=store, options=options(host))
    (host / "app/app.conf").write_text("port = 80\n")
    (host / "app/app.conf").chmod(0o600)
    (host / "app/empty").unlink()
    (host / "app/added").write_text("new\n")
    after = await collect_local_state(run, known=before, store=store, options=options(host))
    staged = tmp_path / "staged"
    changes = [each for each in compare(before, after) if "/host/" in each.item.key]
    plans = [
        plan_revert(each, store, str(staged), is_live=is_live) for each in order_changes(changes)
    ]
    reads = [step for plan in plans for step in plan.steps if step.command.startswith("cp -p ")]
    assert bool(reads) != is_live
    script, stdin = revert_script(plans, store, str(staged))
    assert (await run(script, stdin))[0] == 0
    for plan in reversed(plans):
        for step in reversed(plan.steps):
            assert (await run(step.undo, b""))[0] == 0, step.undo
    now = await collect_local_state(run, known=after, store=store, options=options(host))
    assert [each for each in compare(after, now) if str(host) in each.item.key] == []


@pytest.mark.parametrize("differing", ["content", "mode", "length"])
async def test_a_revert_leaves_alone_what_a_link_that_was_put_there_since_names(
    store: StateStore, tmp_path: Path, differing: str
) -> None:
    elsewhere, path, staged = tmp_path / "elsewhere", tmp_path / "file", tmp_path / "staged"
    elsewhere.write_text("other\n")
    elsewhere.chmod(0o666)
    path.symlink_to(elsewhere)
    shared = {"type": "file", "mode": "644", "uid": "0", "gid": "0"}
    before, after = {
        "content": (Item(store.keep(b"old"), shared), Item(store.keep(b"new"), shared)),
        "mode": (Item("d", shared), Item("d", {**shared, "mode": "600"})),
        "length": (Item("", {**shared, LENGTH: "1"}), Item("", {**shared, LENGTH: "9"})),
    }[differing]
    change = StateChange(ItemId("file", str(path)), before, after)
    plan = plan_revert(change, store, str(staged), is_live=True)
    script, stdin = revert_script([plan], store, str(staged))
    assert (await run(script, stdin))[0] != 0
    for step in plan.steps:
        await run(step.undo, b"")
    assert (elsewhere.read_text(), elsewhere.stat().st_mode & 0o777) == ("other\n", 0o666)


def test_content_is_never_part_of_a_command(tmp_path: Path) -> None:
    store = StateStore(tmp_path)
    digest = store.keep(b"token = abcdef0123456789\n")
    item = {"type": "file", "mode": "600", "uid": "0", "gid": "0"}
    change = StateChange(ItemId("file", "/etc/app.conf"), Item(digest, item), Item("aa", item))
    plan = plan_revert(change, store, "/tmp/staged")
    assert plan.steps
    assert not any("abcdef" in step.command + step.undo for step in plan.steps)


async def test_an_answer_that_is_cut_off_is_an_error_with_words(store: StateStore) -> None:
    async def cut(script: str, stdin: bytes) -> tuple[int, bytes]:
        code, output = await run(script, stdin)
        return code, output[:-200] if "python3" in script else output

    with pytest.raises(EnvironmentFailed, match="could not be read"):
        await CommandReader(cut).list_files(
            {
                "roots": ["/etc/cron.d"],
                "skip": [],
                "known": [],
                "named": [],
                "references": [],
                "max_files": 9,
                "max_folder": 9,
            }
        )
