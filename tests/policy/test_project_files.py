"""A program that reads, in a folder whose files name programs to run or hosts to contact."""

from pathlib import Path

import pytest
from msgspec.structs import replace
from policy_setup import book, call

from hermes.core.actions import KernelSupport
from hermes.policy.actions.action_effects import ActionEffects
from hermes.policy.actions.confinement_profile import build_profile
from hermes.policy.actions.enforceability import check_enforcement
from hermes.policy.actions.reader import (
    ActionContext,
    ActionReader,
    file_digest,
    resolve_symlinks,
)
from hermes.policy.command_analysis import analyse_command
from hermes.policy.decide import DocumentPolicy

READER = ActionReader(analyse_command, lookup=resolve_symlinks, digest=file_digest)
ON_SERVER = '{"version":3,"backend":{"type":"http","config":{"lock_method":"DELETE"}}}'
REMOTE_STATE = 'data "terraform_remote_state" "x" {\n  backend = "http"\n}\n'


def judged(command: str, cwd: Path, home: str = "/home/me") -> tuple[str, str]:
    policy = DocumentPolicy(
        book(set="careful"),
        READER,
        context_of=lambda _: ActionContext(cwd=str(cwd), home=home),
    )
    found = policy.decide(call("terminal", command=command))
    return found.verdict, found.reason


def read(command: str, cwd: Path) -> ActionEffects:
    return READER.read(
        call("terminal", command=command), ActionContext(cwd=str(cwd), home="/home/me")
    )


def put(folder: Path, name: str, text: str = "x") -> Path:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


@pytest.mark.parametrize(
    ("command", "name", "text"),
    [
        ("terraform plan", ".terraform/terraform.tfstate", ON_SERVER),
        ("terraform output", ".terraform/terraform.tfstate", ON_SERVER.replace("b", "B")),
        ("tofu show", ".terraform/providers/host/a/b/1.0.0/linux_amd64/provider", "#!/bin/sh"),
        ("terraform state list", ".terraform/modules/modules.json", "{}"),
        ("terraform plan", "main.tf", REMOTE_STATE),
        ("terraform plan", "main.tf", REMOTE_STATE.replace("_r", r"\u005fr")),
        ("terraform plan", "main.tf.json", '{"data": {"terraform_remote_state": {}}}'),
        ("terragrunt plan", "terragrunt.hcl", "inputs = {}"),
        ("packer validate a.json", "packer-plugin-x", "#!/bin/sh"),
        ("npm outdated", ".npmrc", "registry=http://other.example/"),
        ("npm view react", ".npmrc", "save-exact=${TOKEN}"),
        ("cargo search x", ".cargo/config.toml", "[registry]"),
        ("cargo search x", "rust-toolchain.toml", '[toolchain]\npath = "x"'),
        ("composer outdated", "composer.json", '{"\\u0072epositories": []}'),
        ("pulumi preview", "Pulumi.yaml", "runtime: nodejs"),
        ("ansible all -m ping", "ansible.cfg", "[defaults]"),
        ("ansible all -m ping", "library/ping.py", "x"),
        ("ansible -i hosts.sh all --list-hosts", "hosts.sh", "#!/bin/sh"),
        ("ansible -ihosts.sh all --list-hosts", "hosts.sh", "#!/bin/sh"),
        ("helmfile diff", "helmfile.yaml", "releases: []"),
        ("helmfile -f other.yaml diff", "other.yaml", "releases: []"),
        ("salt-call test.ping", "Saltfile", "salt-call:"),
        ("salt-call -c other test.ping", "other/minion", "module_dirs: []"),
        ("terragrunt --config=other.hcl plan", "other.hcl", "inputs = {}"),
        ("supervisorctl status", "supervisord.conf", "[ctlplugin:x]"),
        ("trivy fs .", "trivy.yaml", "x: y"),
        ("mycli -e 'select 1'", ".myclirc", "[main]"),
        ("gh pr list", ".git/config", "[core]\nfsmonitor = ./x"),
    ],
)
def test_a_read_asks_where_a_file_of_the_folder_decides_what_it_does(
    tmp_path: Path, command: str, name: str, text: str
) -> None:
    assert judged(command, tmp_path)[0] == "allow"
    put(tmp_path, name, text)
    verdict, reason = judged(command, tmp_path)
    assert (verdict, str(tmp_path) in reason) == ("ask", True), reason
    below = f"cd {tmp_path} && {command}"
    assert judged(below, Path("/"))[0] == "ask"
    assert judged(f"ls; {command} | head", tmp_path)[0] == "ask"


@pytest.mark.parametrize(
    ("command", "name", "text"),
    [
        ("terraform plan", "main.tf", 'resource "aws_instance" "x" {\n  ami = "a"\n}\n'),
        ("terraform plan", ".terraform/environment", "staging"),
        (
            "npm outdated",
            ".npmrc",
            "# ours\nsave-exact=true\nfund=false\n",
        ),
        ("npm outdated", "package.json", '{"name": "x"}'),
        ("npm outdated", "sub/.npmrc", "registry=http://other.example/"),
        ("cargo search x", "rust-toolchain.toml", '[toolchain]\nchannel = "1.80"'),
        ("cargo search x", "Cargo.toml", "[package]"),
        ("composer outdated", "composer.json", '{"require": {"a/b": "^1"}}'),
        ("ansible all -m ping", "site.yml", "- hosts: all"),
        ("gh pr list", ".git/config", "[core]\nbare = false"),
        ("kubectl get pods", "Pulumi.yaml", "runtime: nodejs"),
        ("terraform plan", ".npmrc", "registry=http://other.example/"),
    ],
)
def test_files_that_only_describe_leave_it_a_read(
    tmp_path: Path, command: str, name: str, text: str
) -> None:
    put(tmp_path, name, text)
    assert judged(command, tmp_path)[0] == "allow"


@pytest.mark.parametrize(
    "command",
    [
        "terraform -chdir=sub plan",
        "terraform -chdir=s* plan",
        "for d in */; do terraform -chdir=$d plan; done",
        "for d in */; do (cd $d && terraform plan); done",
        "cd sub; terraform plan",
        "terragrunt --terragrunt-working-dir sub plan",
        "env -C sub terraform plan",
        "sudo --chdir=sub terraform plan",
        "timeout 9 env -C sub nice terraform plan",
        "bash -c 'cd sub && terraform plan'",
    ],
)
def test_the_folder_may_be_named_by_the_command(tmp_path: Path, command: str) -> None:
    (tmp_path / "sub").mkdir()
    assert judged(command, tmp_path)[0] == "allow"
    put(tmp_path, "sub/.terraform/terraform.tfstate", ON_SERVER)
    assert judged(command, tmp_path)[0] == "ask"


@pytest.mark.parametrize(
    "command",
    [
        "ls | xargs -I{} terraform -chdir={} plan",
        "terraform -chdir=$(cat folder) plan",
        "npm --prefix $(cat folder) outdated",
        "pulumi -C$(cat folder) preview",
        r"find . -name main.tf -execdir terraform plan \;",
    ],
)
def test_a_folder_that_is_only_known_at_run_time_asks(tmp_path: Path, command: str) -> None:
    assert judged(command, tmp_path)[0] == "ask"


@pytest.mark.parametrize(
    "command", ["trivy -c x.yaml fs .", "mycli --myclirc x -e 'select 1'", "pgcli --pgclirc=x -l"]
)
def test_settings_that_the_command_chooses_ask(tmp_path: Path, command: str) -> None:
    assert judged(command, tmp_path)[0] == "ask"


def test_words_of_run_time_that_name_no_folder_are_no_reason(tmp_path: Path) -> None:
    for command in ('terraform plan "-target=$(cat f)"', "for p in a b; do npm view $p; done"):
        assert judged(command, tmp_path)[0] == "allow", command


@pytest.mark.parametrize(
    "command",
    [
        "terraform validate",
        "terraform fmt -check",
        "tofu version",
        "npm ls",
        "npm config get registry",
        "yarn --version",
        "pnpm -v",
        "cargo metadata",
        "cargo tree",
        "go list ./...",
        "composer show",
        "pulumi version",
    ],
)
def test_what_needs_no_network_gets_neither_network_nor_credentials(
    tmp_path: Path, command: str
) -> None:
    names = (".terraform/terraform.tfstate", ".npmrc", ".yarnrc.yml", ".cargo/config.toml")
    for name in (*names, "rust-toolchain.toml", "Pulumi.yaml", "composer.json", "go.mod"):
        put(tmp_path, name)
    assert judged(command, tmp_path)[0] == "allow"
    profile = build_profile(read(command, tmp_path))
    assert (profile.unrestricted, profile.network, profile.sockets) == ("", "none", ())
    assert "~/.aws/credentials" in profile.hidden


@pytest.mark.parametrize("command", ["terraform plan", "npm view x", "go list -m -u all"])
def test_what_asks_a_server_keeps_the_network(tmp_path: Path, command: str) -> None:
    assert build_profile(read(command, tmp_path)).network == "any"


def test_settings_of_the_user_are_trusted_in_all_folders(tmp_path: Path) -> None:
    put(tmp_path, ".npmrc", "registry=http://mirror.example/")
    work = tmp_path / "project"
    work.mkdir()
    assert judged("npm outdated", work, home=str(tmp_path))[0] == "allow"
    assert judged("npm outdated", work)[0] == "ask"
    put(tmp_path, ".terraform/terraform.tfstate", ON_SERVER)
    assert judged("terraform plan", tmp_path, home=str(tmp_path))[0] == "ask"


def test_an_approval_is_for_the_files_that_were_there(tmp_path: Path) -> None:
    state = put(tmp_path, ".terraform/terraform.tfstate", ON_SERVER)
    provider = put(tmp_path, ".terraform/providers/a/provider", "one")
    first = read("terraform plan", tmp_path).hash
    assert read("terraform plan", tmp_path).hash == first
    provider.write_text("two")
    second = read("terraform plan", tmp_path).hash
    state.write_text(ON_SERVER.replace("DELETE", "PUT"))
    assert len({first, second, read("terraform plan", tmp_path).hash}) == 3


def test_on_another_host_the_decision_says_that_they_were_not_read() -> None:
    there = replace(call("terminal", command="pulumi preview"), environment="ssh", target="web1")
    effects = READER.read(there, ActionContext(cwd="/srv/app", home="/home/me"))
    level, gaps = check_enforcement(
        build_profile(effects), KernelSupport(landlock=7, root=True), effects.unread
    )
    assert (level, "what pulumi finds there" in gaps) == ("partly", True), gaps
