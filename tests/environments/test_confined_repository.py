"""Git under confinement: it records work, and nothing changes what git itself would run."""

import os
import shutil
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hermes.core.actions import ConfinementProfile
from hermes.environments.confinement.verdict_paths import only_upstreams_differ
from hermes.environments.local import LocalEnvironment
from hermes.environments.sandboxing import support

NOT_HERE = support.kernel_support().reason
pytestmark = [pytest.mark.anyio, pytest.mark.skipif(bool(NOT_HERE), reason=NOT_HERE)]
RECORDS, FILES = ConfinementProfile(repository="records"), ConfinementProfile(repository="files")
SETTINGS = ConfinementProfile(repository="files", repository_settings=True)


@pytest.fixture(scope="module")
def repositories(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The home of each test: `work`, with a change, is a clone of `origin`."""
    home = tmp_path_factory.mktemp("repositories")
    (home / "work").mkdir()
    (home / "evil").mkdir()
    script = (
        "git config --global user.name a; git config --global user.email a@b.c;"
        "git config --global init.defaultBranch main;"
        "git init -q ../origin && cd ../origin && echo 1 > file && git add . && "
        "git commit -qm one && git branch other && cd ../work && git clone -q ../origin . && "
        "git remote set-url origin ../origin && echo 2 > file"
    )
    subprocess.run(["bash", "-c", script], cwd=home / "work", env=variables(home), check=True)
    return home


def variables(home: Path) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8"}


@pytest.fixture
async def here(tmp_path: Path, repositories: Path) -> AsyncIterator[LocalEnvironment]:
    shutil.copytree(repositories, tmp_path, symlinks=True, dirs_exist_ok=True)
    work, processes = tmp_path / "work", tmp_path / "processes"
    async with LocalEnvironment(work, variables(tmp_path), processes=processes) as place:
        yield place


async def run(
    place: LocalEnvironment, command: str, profile: ConfinementProfile
) -> tuple[int, str, str]:
    async with place.confined(profile) as confined:
        result = await confined.run(command, timeout=120)
        blocked = "\n".join(str(each) for each in confined.collect())
    return result.exit_code, result.output, blocked


ORDINARY = {
    "add and commit": ("git add -A && git commit -qm two && git log --oneline | wc -l", RECORDS),
    "amend": ("git commit -qam two && git commit -q --amend -m three", RECORDS),
    "a branch and a tag": ("git branch x && git tag y && git branch -d x", RECORDS),
    "fetch": ("git fetch -q", ConfinementProfile(repository="records", network="any")),
    "notes and packing": ("git notes add -m n && git gc -q && git pack-refs --all", RECORDS),
    "stash": ("git stash -q && git stash pop -q", FILES),
    "checkout of a new branch": ("git checkout -q -b new && git checkout -q main", FILES),
    "switch to a remote branch": ("git stash -q && git switch -q other && git branch -vv", FILES),
    "an upstream": ("git branch -q -u origin/other", RECORDS),
    "restore and move": ("git restore file && git mv file g && git commit -qm moved", FILES),
    "a rebase": (
        "git commit -qam x && git commit -q --allow-empty -m y && git rebase -q -x true HEAD~1",
        FILES,
    ),
    "a merge": ("git commit -qam x && git merge -q origin/other", FILES),
}


@pytest.mark.parametrize("work", ORDINARY)
async def test_ordinary_work_with_git_goes_on(here: LocalEnvironment, work: str) -> None:
    command, profile = ORDINARY[work]
    code, output, blocked = await run(here, command, profile)
    assert (code, blocked) == (0, ""), output


async def test_a_new_branch_follows_its_remote_branch(here: LocalEnvironment) -> None:
    assert (await run(here, "git restore . && git switch -q other", FILES))[0] == 0
    told = await here.run("git config branch.other.remote; git config branch.other.merge")
    assert told.output == "origin\nrefs/heads/other\n"


EVIL = "echo bad"
TRICKS = {
    "a hook": f"echo '{EVIL}' > .git/hooks/pre-commit",
    "a setting": f"git config core.fsmonitor '{EVIL}'",
    "a setting by hand": "echo bad >> .git/config",
    "another file as the configuration": "cp .git/config .git/x; echo bad >> .git/x; "
    "mv -f .git/x .git/config",
    "a lock file with more in it": "cp .git/config .git/config.lock; "
    "printf '[core]\\n\\tfsmonitor = bad\\n' >> .git/config.lock; "
    'python3 -c \'import os; os.rename(".git/config.lock", ".git/config")\'',
    "attributes": "mkdir -p .git/info; echo '* filter=bad' > .git/info/attributes",
    "the settings of a worktree": "mkdir -p .git/worktrees/x; echo bad > "
    ".git/worktrees/x/config.worktree",
    "the settings of a submodule": "mkdir -p .git/modules/a/b; echo bad > .git/modules/a/b/config",
    "another place of the settings": "echo ../evil > .git/commondir",
    "a prepared folder": "mkdir -p .git/x; echo bad > .git/x/pre-commit; rmdir .git/hooks; "
    "mv -T .git/x .git/hooks",
    "a prepared repository": "mkdir x; cp -r .git/HEAD x; mv .git y; mv x .git",
    "a link for the hooks": "rm -r .git/hooks; ln -s ../../evil .git/hooks",
    "a link for the modules": "ln -s ../../evil .git/modules",
    "a hard link": "ln .git/config .git/x; echo bad >> .git/x",
    "objects of others": "mkdir -p .git/objects/info; "
    "echo ../../evil > .git/objects/info/alternates",
    "a prepared folder with objects of others": "mkdir .git/objects/x; rm -rf .git/objects/info; "
    "echo ../../evil > .git/objects/x/alternates; mv -T .git/objects/x .git/objects/info",
    "a link for objects of others": "rm -rf .git/objects/info; ln -s ../../../x .git/objects/info",
    "a prepared folder of objects": "mkdir -p .git/refs/x/info; mv -T .git/objects .git/refs/y; "
    "echo ../../evil > .git/refs/x/info/alternates; mv -T .git/refs/x .git/objects",
    "a repository inside": "mkdir sub; echo 'gitdir: ../../evil' > sub/.git",
}


@pytest.mark.parametrize("profile", [RECORDS, FILES], ids=["records", "files"])
@pytest.mark.parametrize("trick", TRICKS)
async def test_what_git_would_run_stays_as_it_was(
    here: LocalEnvironment, tmp_path: Path, trick: str, profile: ConfinementProfile
) -> None:
    git = tmp_path / "work" / ".git"
    hooks = sorted(path.name for path in (git / "hooks").iterdir())
    config = (git / "config").read_bytes()
    _, output, blocked = await run(here, TRICKS[trick], profile)
    assert blocked, output
    assert (git / "config").read_bytes() == config
    assert sorted(path.name for path in (git / "hooks").iterdir()) == hooks
    assert not list((tmp_path / "evil").iterdir())
    for name in (
        *("info/attributes", "commondir", "worktrees/x/config.worktree"),
        "objects/info/alternates",
    ):
        assert not (git / name).exists()
    assert not (git / "modules/a/b/config").exists()
    assert not (tmp_path / "work/sub/.git").exists()


STEPS = {
    "new steps": "mkdir -p .git/rebase-merge; echo 'exec bad' > .git/rebase-merge/git-rebase-todo",
    "a prepared file": "mkdir -p .git/rebase-merge; echo 'exec bad' > .git/x; "
    "mv .git/x .git/rebase-merge/git-rebase-todo",
    "a prepared folder": "mkdir .git/x; echo 'exec bad' > .git/x/git-rebase-todo; "
    "mv -T .git/x .git/rebase-merge",
    "steps of a worktree": "mkdir -p .git/worktrees/x/rebase-merge; "
    "echo 'exec bad' > .git/worktrees/x/rebase-merge/git-rebase-todo",
}


@pytest.mark.parametrize("steps", STEPS)
async def test_a_commit_plans_no_steps_of_a_rebase(
    here: LocalEnvironment, tmp_path: Path, steps: str
) -> None:
    _, output, blocked = await run(here, STEPS[steps], RECORDS)
    assert "rebase" in blocked or ".git/x" in blocked, output
    assert not list((tmp_path / "work/.git").glob("**/rebase-merge/git-rebase-todo"))


async def test_a_verdict_about_settings_may_change_them(here: LocalEnvironment) -> None:
    code, output, blocked = await run(here, "git remote add x ../y && git config a.b c", SETTINGS)
    assert (code, blocked) == (0, ""), output


async def test_a_worktree_can_be_added_beside_the_repository(
    here: LocalEnvironment, tmp_path: Path
) -> None:
    profile = ConfinementProfile(repository="records", writable=(str(tmp_path / "x"),))
    code, output, blocked = await run(here, "git worktree add -q ../x other", profile)
    assert (code, blocked) == (0, ""), output
    assert (await run(here, "git -C ../x status --short", ConfinementProfile()))[:2] == (0, "")
    _, _, blocked = await run(here, "echo ../evil > .git/worktrees/x/commondir", profile)
    assert "commondir" in blocked


async def test_the_repository_is_the_one_that_was_judged(
    here: LocalEnvironment, tmp_path: Path
) -> None:
    command = "git -C ../origin tag made; git tag made"
    origin = ConfinementProfile(repository="records", repositories=(str(tmp_path / "origin"),))
    _, _, blocked = await run(here, command, origin)
    assert str(tmp_path / "work" / ".git") in blocked
    assert f"{tmp_path}/origin" not in blocked
    assert (await here.run("git -C ../origin tag; git tag")).output == "made\n"


@pytest.mark.parametrize(
    "added",
    [
        b'[branch "x"]\n\tremote = ext::sh\n',
        b'[branch "x"]\n\tmergeoptions = a\n',
        b'[branch "x"]\n\tremote = a \\\n[core]\n',
        b'[branch "x"] remote = y\n',
        b"[core]\n\tpager = bad\n",
        b"\tsshCommand = bad\n",
    ],
)
def test_more_than_an_upstream_is_a_change_of_settings(added: bytes) -> None:
    before = b"[core]\n\tbare = false\n"
    assert not only_upstreams_differ(before, before + added)


def test_an_upstream_is_no_change_of_settings() -> None:
    before = b'[core]\n\tbare = false\n[remote "origin"]\n\turl = x\n'
    added = b'[branch "a/b"]\n\tremote = origin\n\tmerge = refs/heads/a/b\n'
    assert only_upstreams_differ(before, before + added)
    assert only_upstreams_differ(before + added, before)


@pytest.mark.parametrize(
    "verb",
    [
        "log -p --all",
        "show HEAD~1",
        "diff HEAD~1 HEAD",
        "grep KEY HEAD~1",
        "diff-tree -p HEAD~1 HEAD",
    ],
)
async def test_a_secret_file_of_the_history_is_not_printed(
    here: LocalEnvironment, verb: str
) -> None:
    made = await here.run(
        "echo KEY=value > .env && echo KEY=plain > notes && git add -A && git commit -qm secret &&"
        " git rm -q .env && echo KEY=other > notes && git commit -qam removed"
    )
    assert made.exit_code == 0, made.output
    _, output, _ = await run(here, f"git {verb}", ConfinementProfile())
    assert "KEY=plain" in output
    assert "KEY=value" not in output


async def test_attributes_of_the_user_apply_when_files_are_recorded(
    here: LocalEnvironment, tmp_path: Path
) -> None:
    (tmp_path / "attributes").write_text("*.dat text eol=lf\n")
    await here.run(f"git config --global core.attributesFile {tmp_path}/attributes")
    await here.run(r"printf 'a\r\n' > x.dat")
    await run(here, "git status", ConfinementProfile())  # its variables are for it alone
    code, output, _ = await run(here, "git add x.dat && git commit -qm x", RECORDS)
    assert code == 0, output
    _, output, _ = await run(here, "git show HEAD:x.dat | od -c", ConfinementProfile())
    assert r"\r" not in output
