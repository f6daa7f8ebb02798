"""What counts as the work when a session starts at home, in /etc or in another shared folder."""

import pytest
from policy_setup import HOME, OWN, book, call

from hermes.policy.actions.reader import ActionContext, ActionReader
from hermes.policy.command_analysis import analyse_command
from hermes.policy.decide import DocumentPolicy

START_UP_FILES = [
    ".config/git/config",
    ".local/bin/ls",
    "bin/ls",
    ".pyenv/shims/python3",
    ".tmux.conf",
    ".forward",
    ".gdbinit",
    ".pam_environment",
    ".config/environment.d/x",
    ".xprofile",
    ".hermes/tools/evil.yaml",
    "go/bin/gofmt",
    ".hermes/plugins/x.py",
    ".hermes/skills/x/SKILL.md",
    ".cargo/config.toml",
    ".ssh/rc",
    ".new",
]


def decided(command: str, workspace: str, *, home: str = HOME, loaded: str = "") -> str:
    gate = DocumentPolicy(
        book(set="careful"),
        ActionReader(analyse_command, own_paths=OWN, loaded_folders=tuple(filter(None, [loaded]))),
        context_of=lambda _: ActionContext(cwd=workspace, home=home, workspace=workspace),
    )
    return gate.decide(call("terminal", command=command)).verdict


@pytest.mark.parametrize("home", [HOME, "/root", "/tmp/attack/fh", "/data/homes/me"])
@pytest.mark.parametrize("path", START_UP_FILES)
def test_start_up_files_of_a_home_are_asked_about(path: str, home: str) -> None:
    for command in (f"echo x > {path}", f"mkdir -p {path}", f"chmod +x {path}"):
        assert decided(command, home, home=home) == "ask"
    assert decided(f"echo x > {home}/{path}", "/srv/app", home=home) == "ask"


@pytest.mark.parametrize(
    ("workspace", "path"),
    [
        ("/etc", "gitconfig"),
        ("/etc", "logrotate.d/x"),
        ("/etc", "nologin"),
        ("/etc/profile.d", "x.sh"),
        ("/usr/local/bin", "ls"),
        ("/usr", "lib/x.so"),
        ("/var", "lib/dpkg/info/x.postinst"),
        ("/var/lib", "dpkg/info/x.postinst"),
        ("/boot", "grub/grub.cfg"),
        ("/home", "me/.profile.d"),
        ("/home", "other/.config/git/config"),
        ("/home", "new"),
        ("/srv", "new"),
        ("/opt", "start"),
        (f"{HOME}/.config", "git/config"),
        (f"{HOME}/bin", "ls"),
        ("/", "home/me/.tmux.conf"),
    ],
)
def test_folders_of_the_system_and_above_homes_are_no_work(workspace: str, path: str) -> None:
    assert decided(f"printf x > {path}", workspace) == "ask"


@pytest.mark.parametrize(
    ("workspace", "path"),
    [
        (HOME, "notes.txt"),
        (HOME, "project/src/main.py"),
        (HOME, "project/.github/workflows/x.yml"),
        (f"{HOME}/project", "bin/start"),
        (f"{HOME}/project", ".editorconfig"),
        ("/root", "report.md"),
        ("/srv/app", ".gitlab-ci.yml"),
        ("/srv", "app/config.py"),
        ("/home", "me/project/x.py"),
        ("/opt/app", "bin/x"),
        ("/usr/src/app", "index.js"),
        ("/var/www/site", "index.html"),
        ("/var/lib/jenkins/workspace/job", "out.txt"),
    ],
)
def test_ordinary_files_of_a_project_are_not_asked_about(workspace: str, path: str) -> None:
    assert decided(f"echo x > {path}", workspace) == "allow"


def test_folders_that_programs_or_later_sessions_load_from_are_asked_about() -> None:
    for workspace in ("/srv/app", "/srv/app/tools", "/tmp/x"):
        inner = "/srv/app/tools" if workspace.startswith("/srv") else "/tmp/y"
        assert decided(f"echo x > {inner}/ls", workspace, loaded=inner) == "ask"
        assert decided(f"echo x > {inner}/ls", workspace) == "allow"
    assert decided("tar -C /tmp/attack -xf a.tar", "/srv/app", loaded="/tmp/attack/home") == "ask"
    assert decided("echo x > /tmp/attack/a", "/srv/app", loaded="/tmp/attack/home") == "allow"


def test_a_repository_at_home_is_recorded_as_before() -> None:
    assert decided("git commit -m x", HOME) == "allow"


def test_skills_and_tools_of_a_project_are_asked_about() -> None:
    assert decided("echo x > .hermes/skills/x/SKILL.md", "/srv/app") == "ask"
