"""Secret files that a command finds only at run time, and that its verdict does not cover."""

import os
import shutil
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from hermes.core.actions import ConfinementProfile
from hermes.environments.confinement import installed_programs
from hermes.environments.confinement.enforcement import build_filter
from hermes.environments.confinement.installed_programs import (
    SystemFileCache,
    is_interpreter_of_root,
)
from hermes.environments.confinement.messages import VerdictRules
from hermes.environments.confinement.read_check import (
    SecretPatterns,
    changes_system_folders,
    resolve_links,
)
from hermes.environments.local import LocalEnvironment
from hermes.environments.sandboxing import support
from hermes.policy.actions.confinement_profile import approved_profile, build_profile
from hermes.policy.actions.reader import ActionContext, ActionReader
from hermes.policy.command_analysis import analyse_command
from hermes.policy.commands.paths import PathClassifier
from hermes.policy.commands.tables import path_lists
from hermes.policy.examination import action_from_description, parse_description

NOT_HERE = support.kernel_support().reason
pytestmark = [pytest.mark.anyio, pytest.mark.skipif(bool(NOT_HERE), reason=NOT_HERE)]
SECRET = "fake-value-1"


def judged(command: str, folder: Path) -> ConfinementProfile:
    """The profile that the policy gives to a command that runs in a folder."""
    action = action_from_description(parse_description({"command": command}))
    context = ActionContext(cwd=str(folder), home="/home/nobody")
    return build_profile(ActionReader(analyse_command).read(action, context))


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    (folder / "app/deep").mkdir(parents=True)
    (folder / "app/.env").write_text(f"{SECRET}\n")
    (folder / "app/server.key").write_text(f"{SECRET}\n")
    (folder / "app/notes").write_text("ordinary\n")
    (folder / "app/deep/plain").symlink_to("../.env")
    (folder / "list").write_text(f"{folder}/app/.env\n")
    (folder / "list0").write_text(f"{folder}/app/.env\0{folder}/app/notes\0")
    return folder


@pytest.fixture
async def here(work: Path) -> AsyncIterator[LocalEnvironment]:
    variables = {"PATH": os.environ["PATH"], "HOME": str(work), "LANG": "C.UTF-8"}
    async with LocalEnvironment(work, variables) as place:
        assert (await place.kernel_support()).reason == ""
        yield place


async def run(
    place: LocalEnvironment, command: str, profile: ConfinementProfile
) -> tuple[str, list[str]]:
    async with place.confined(profile) as confined:
        result = await confined.run(command, timeout=120)
        return result.output, [str(each) for each in confined.collect()]


@pytest.mark.parametrize(
    ("command", "program"),
    [
        ("cat list | xargs cat", "cat"),
        ("cat $(cat list)", "cat"),
        ('while read f; do rev "$f" | rev; done < list', "rev"),
        ("grep -r . app", "grep"),
        ("find app -size -2 -exec cat {} +", "cat"),
        ("cat app/.[a-f]*", "cat"),
        ("for f in app/.[d-f]* app/[s]*; do cat $f; done", "cat"),
        ("wc -l --files0-from=list0; sort --files0-from=list0", "sort"),
        ('awk "BEGIN{f=\\"app/.e\\" \\"nv\\"; while((getline l < f)>0) print l}"', "awk"),
        ('awk "BEGIN{ARGV[1]=\\"app/.e\\" \\"nv\\"; ARGC=2} {print}"', "awk"),
        ("while read f; do mapfile -t a < $f; echo ${a[0]}; done < list", "bash"),
        ("read f < list; while read l; do echo $l; done < $f", "bash"),
        ("read f < list; echo $(<$f)", "bash"),
        ("cat app/deep/*", "cat"),
        ("HOSTFILE=app/.env; compgen -A hostname", "bash"),
        ('curl -s "file://$(cat list)"', "curl"),
        ("git interpret-trailers app/.env", "git"),
        ("diff -N app deep", "diff"),
        ("cp -r app copy; cat copy/.[e]* copy/app/.[e]*", "cp"),
        ("tar cf - app | tr -d '\\0'", "tar"),
    ],
)
async def test_a_secret_that_is_named_at_run_time_is_not_read(
    here: LocalEnvironment, work: Path, command: str, program: str
) -> None:
    profile = judged(command, work)
    assert not profile.unrestricted, profile
    output, blocked = await run(here, command, profile)
    assert SECRET not in output
    names = {each.partition(" by ")[0] for each in blocked}
    assert names <= {f"read of {work}/app/.env", f"read of {work}/app/server.key"}
    assert any(each.startswith(f"read of {work}/app/") for each in blocked), (output, blocked)
    assert any(each.endswith(program) for each in blocked) or program == "awk", blocked
    readable, _ = await run(here, command, ConfinementProfile(writable=profile.writable))
    assert SECRET in readable


@pytest.mark.parametrize(
    "path",
    [
        "app/.env",
        "./app//.env",
        "app/deep/plain",
        "app/deep/../.env",
        "/proc/self/cwd/app/.env",
        "/proc/./self/cwd/app/.env",
        "/proc/thread-self/cwd/app/.env",
        "/dev/fd/5",
        "/dev/fd/6/.env",
        "/dev/../proc/self/fd/5",
        "/proc/self/root{work}/app/.env",
        "{work}/app/.env",
        "{work}/app/deep/plain",
        "/usr/lib/../..{work}/app/.env",
        f"{'./' * 200}app/.env",
    ],
)
async def test_every_way_to_write_a_path_is_resolved(
    here: LocalEnvironment, work: Path, path: str
) -> None:
    profile = judged("cat $(cat list)", work)
    named = path.format(work=work)
    code = (
        "import os, sys\n"
        "os.dup2(os.open('app/.env', os.O_PATH), 5)\n"
        "os.dup2(os.open('app', os.O_PATH), 6)\n"
        "try: sys.stdout.buffer.write(os.read(os.open(sys.argv[1], 0), 99))\n"
        "except PermissionError: print('refused')\n"
    )
    command = f"{sys.executable} -S -c \"{code}\" '{named}'"
    assert await run(here, command, profile) == (
        "refused\n",
        [f"read of {work}/app/.env by {Path(sys.executable).name}"],
    )
    assert (await run(here, command, ConfinementProfile()))[0] == f"{SECRET}\n"


async def test_a_path_at_the_end_of_a_memory_page_is_resolved(
    here: LocalEnvironment, work: Path
) -> None:
    code = (
        "import ctypes, mmap\n"
        "memory, library = mmap.mmap(-1, 3 * 4096), ctypes.CDLL(None, use_errno=True)\n"
        "start = ctypes.addressof(ctypes.c_char.from_buffer(memory))\n"
        "library.mprotect(ctypes.c_void_p(start + 8192), 4096, 0)\n"
        "for name in b'app/.env', b'app/notes':\n"
        "    for place in 4096 - 4, 4096 - len(name), 8192 - len(name) - 1:\n"
        "        memory[place:place + len(name) + 1] = name + bytes(1)\n"
        "        fd = library.open(ctypes.c_void_p(start + place), 0)\n"
        "        print(ctypes.get_errno() if fd < 0 else 'opened')\n"
    )
    command = f'{sys.executable} -S -c "{code}"'
    output, _ = await run(here, command, judged("cat $(cat list)", work))
    assert output.split() == ["13"] * 3 + ["opened"] * 3


def test_only_files_of_the_system_that_no_user_can_replace_are_remembered(tmp_path: Path) -> None:
    files = SystemFileCache()
    for path, real in (
        ("/usr/lib/ssl/private/x", "/etc/ssl/private/x"),
        ("/usr/lib/../../tmp/link/../usr/lib/x", "/usr/lib/x"),
        ("/etc/hosts", "/etc/hosts"),
        ("/usr/library", "/usr/library"),
    ):
        files.add(path, real)
        assert not files.known, path
    files.add("/usr/lib/os-release", "/usr/lib/os-release")
    files.add("/usr/lib/missing/name", "/usr/lib/missing/name")
    assert files.known == {b"/usr/lib/os-release", b"/usr/lib/missing/name"}
    assert files.belongs_to_root("/usr/lib")
    assert not files.belongs_to_root(str(tmp_path))


def test_a_command_that_may_change_the_system_remembers_no_file_of_it() -> None:
    for path in ("/", "/usr", "/usr/lib", "/usr/lib/app", "/lib64", "/etc"):
        rules = VerdictRules()
        rules.exact = (path,)
        assert changes_system_folders(rules), path
    rules = VerdictRules()
    rules.trees, rules.exact = ("/tmp/x", "/srv"), ("/usr/local/lib", "/etc/hosts")
    assert not changes_system_folders(rules)


async def test_a_path_relative_to_an_open_folder_or_a_removed_one_is_resolved(
    here: LocalEnvironment, work: Path
) -> None:
    code = (
        "import os, sys\n"
        "folder = os.open('app', os.O_RDONLY)\n"
        "os.mkdir(os.environ['TMPDIR'] + '/gone')\n"
        "for name in '.env', 'notes':\n"
        "    try: print(os.read(os.open(name, 0, dir_fd=folder), 99))\n"
        "    except PermissionError: print('refused')\n"
        "os.chdir(os.environ['TMPDIR'] + '/gone')\n"
        "os.rmdir(os.getcwd())\n"
        "try: print(os.read(os.open('../.env', 0), 99))\n"
        "except PermissionError: print('refused')\n"
    )
    (here.temporary / ".env").write_text(SECRET)
    command = f'{sys.executable} -S -c "{code}"'
    output, _ = await run(here, command, judged("cat $(cat list)", work))
    assert output.splitlines() == ["refused", "b'ordinary\\n'", "refused"]


async def test_other_files_and_programs_that_log_in_are_not_refused(
    here: LocalEnvironment, work: Path
) -> None:
    profile = judged("cat $(cat list)", work)
    output, _ = await run(here, "grep -r ordinary app 2>/dev/null", profile)
    assert output == "app/notes:ordinary\n"
    await here.run("cp /bin/cat client")
    assert (await run(here, "./client app/.env", profile))[0] != f"{SECRET}\n"
    granted = ConfinementProfile(refused_reads=profile.refused_reads, granted_reads=("rev:*/.env",))
    assert await run(here, "rev app/.env", granted) == (f"{SECRET[::-1]}\n", [])


async def test_what_a_program_may_read_is_not_for_another_one_of_its_name(
    here: LocalEnvironment, work: Path
) -> None:
    granted = ConfinementProfile(
        refused_reads=judged("cat $(cat list)", work).refused_reads,
        granted_reads=("ssh:*/.env", "rev:*/.env"),
    )
    for line in ("#!/bin/bash", "#!/bin/bash -e"):
        (work / "rev").write_text(f"{line}\nread x < app/.env; echo $x\n")
        (work / "rev").chmod(0o755)
        assert SECRET not in (await run(here, "./rev", granted))[0]
        assert SECRET not in (await run(here, f"{work}/rev /usr/bin/rev", granted))[0]
    for command in (
        "cp /bin/cat $TMPDIR/ssh; $TMPDIR/ssh app/.env",
        "cp /bin/cat $TMPDIR/rev; PATH=$TMPDIR:$PATH; rev app/.env",
        "ln -s /bin/cat $TMPDIR/rev; $TMPDIR/rev app/.env",
        "bash -c 'exec -a /usr/bin/rev cat app/.env'",
    ):
        output, blocked = await run(here, command, granted)
        assert SECRET not in output, command
        assert [each for each in blocked if each.startswith("read of")], command


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can hide files")
async def test_a_hidden_file_with_a_stand_in_is_read_as_before(
    here: LocalEnvironment, work: Path
) -> None:
    profile = judged("cat $(cat list)", work)
    assert "/etc/shadow" in profile.hidden
    output, blocked = await run(here, "echo /etc/shadow | xargs cut -d: -f1", profile)
    assert "root\n" in output
    assert blocked == []


def test_a_command_that_names_all_it_reads_is_not_checked(work: Path) -> None:
    for command in (
        "cat list; df -h; ps aux | grep nginx",
        "ls -la app/*; du -sh app/* | sort -rh | head -5",
        "ss -ltn | awk '{print $4}'",
        "tail -f list",
        "for s in a b; do systemctl status $s; done",
        "git status; git log -3",
        "find . -name '*.log'",
    ):
        assert judged(command, work).refused_reads == (), command
    assert judged("cat $(cat list); cat app/.env", work).refused_reads == ()  # a person is asked
    plain, checked = VerdictRules(), VerdictRules()
    checked.refused_reads = ("*/.env",)
    assert len(build_filter(checked)) == len(build_filter(plain)) + 2
    assert plain.shape != checked.shape


@pytest.mark.parametrize(
    "command",
    [
        "xargs -a list echo",
        "HOSTFILE=list; compgen -A hostname",
        "git interpret-trailers list",
        "git blame --contents list x",
        "git diff",
        "wc --files0-from list",
        "sort --files0-from=list",
        "du --files0-f=list",
        "du *",
        "file -f list",
        "file -m list x",
        "date -f list",
        "ss -F list",
        "strings @list",
        "git config -f list -l",
        "jq -n 'import \"list\" as $x; $x'",
        "cat < 'app/'$x",
        "less list",
        "kubectl kustomize app",
        "docker ps",
        "curl -s http://localhost/",
    ],
)
def test_every_other_command_is_checked(work: Path, command: str) -> None:
    assert judged(command, work).refused_reads


def granted_to_tac(profile: ConfinementProfile) -> ConfinementProfile:
    """`tac`, which is installed everywhere, in the place of kubectl."""
    granted = tuple(each.replace("kubectl:", "tac:") for each in profile.granted_reads)
    return replace(profile, granted_reads=granted)


async def test_a_program_that_logs_in_reads_its_own_keys_only(
    here: LocalEnvironment, work: Path
) -> None:
    await here.run("mkdir -p .kube; echo key > .kube/config")
    profile = granted_to_tac(judged("kubectl get pods", work))
    assert (await run(here, "tac .kube/config", profile))[0] == "key\n"
    output, blocked = await run(here, "tac app/.env", profile)
    assert SECRET not in output
    assert blocked == [f"read of {work}/app/.env by tac"]
    mixed = granted_to_tac(judged("kubectl get pods; git diff", work))
    assert (await run(here, "tac .kube/config", mixed))[0] == "key\n"
    assert "Permission denied" in (await run(here, "cat .kube/config", mixed))[0]


async def test_a_helper_of_a_program_that_logs_in_reads_no_keys_of_others(
    here: LocalEnvironment, work: Path
) -> None:
    await here.run("mkdir -p .x; echo key > .x/server.key")
    for command in ("kubectl get pods", "aws s3 ls", "psql -c 'select 1'"):
        profile = judged(command, work)
        assert not [each for each in profile.granted_reads if each.startswith("*:/etc/")], command
        assert "Permission denied" in (await run(here, "cat .x/server.key", profile))[0], command
    profile = granted_to_tac(judged("kubectl get pods", work))
    assert (await run(here, "tac .x/server.key", profile))[0] == "key\n"


@pytest.mark.parametrize(
    ("command", "granted"),
    [
        ("redis-cli info", set()),
        ("mongosh --eval 'db.x.find()'", set()),
        ("npm view x", {"*:*/.npmrc"}),
        ("psql -c 'select 1'", {"*:*/.pgpass"}),
        ("git fetch", {"ssh:*/.ssh/*", "git-credential-store:*/.git-credentials"}
         | {f"git-remote-{kind}:*/.netrc" for kind in ("http", "https")}),
        ("ssh web1 cat /etc/hosts", {"ssh:*/.ssh/*"}),
    ],
)  # fmt: skip
def test_a_client_and_its_helpers_get_no_credentials_but_their_own(
    work: Path, command: str, granted: set[str]
) -> None:
    personal = {each for each in judged(command, work).granted_reads if ":*/." in each}
    assert {each for each in personal if "*/.*/" not in each} == granted


def test_a_command_on_another_host_grants_nothing_to_that_program_here(work: Path) -> None:
    profile = judged("ssh web1 cat /etc/hosts; find . -name x -exec cat {} +", work)
    assert profile.granted_reads
    assert not [each for each in profile.granted_reads if each.startswith(("cat:", "*:"))]


def test_a_named_key_is_granted_to_the_program_that_uses_it(work: Path) -> None:
    granted = judged("openssl x509 -in app/site.pem -noout", work).granted_reads
    assert granted == (f"openssl:{work}/app/site.pem",)
    unknown = judged("openssl x509 -in app/site.pem; openssl base64 -in $(cat list)", work)
    assert not unknown.granted_reads


@pytest.mark.parametrize(
    "command",
    [
        "openssl x509 -in app/.env; kubectl kustomize app",
        "openssl x509 -in app/.env; kubectl get pods",
        "wget -qO- --ca-certificate=app/.env https://localhost/; kubectl kustomize app",
        "kubectl kustomize app; openssl verify -CAfile app/.env app/notes",
        "openssl x509 -in app/.env; rsync -n -r app host:/x",
    ],
)
def test_a_named_key_is_granted_to_no_other_program_of_the_command(
    work: Path, command: str
) -> None:
    granted = judged(command, work).granted_reads
    mine = [each for each in granted if each.endswith(":" + str(work / "app/.env"))]
    assert {each.partition(":")[0] for each in mine} <= {"openssl", "wget"}


@pytest.mark.parametrize(
    "command",
    [
        "kubectl kustomize app",
        "kubectl -n x kustomize app",
        "kustomize build app",
        "helm template x app",
        "kubectl diff -k app",
        "kubectl diff --kustomize=app",
    ],
)
async def test_what_prints_files_of_a_folder_gets_no_credentials_in_it(
    here: LocalEnvironment, work: Path, command: str
) -> None:
    program = command.partition(" ")[0]
    await here.run(
        f"mkdir -p app/.kube bin; cp /bin/cat bin/{program}; echo key > app/.kube/config"
    )
    output, blocked = await run(here, f"bin/{program} app/.kube/config", judged(command, work))
    assert "key" not in output
    assert blocked


def test_the_patterns_mean_what_the_policy_means() -> None:
    lists = path_lists()
    globs = [each for each in lists["secrets"] if each[0] in "/*" and "[" not in each]
    patterns = SecretPatterns((*globs, *(f"!{each}" for each in lists["public"])))
    classifier = PathClassifier("/nowhere")
    samples = [
        *("/etc/shadow", "/etc/hosts", "/srv/app/.env", "/srv/.env.d/x", "/srv/a.env", "/srv/env"),
        *("/srv/x.tfstate.d/prod/y", "/a/.ssh/id_rsa", "/a/.ssh/deep/key", "/a/.ssh/config"),
        *("/etc/ssl/private/a/b", "/etc/ssl/certs/a.pem", "/srv/cert.pem", "/srv/ca/x.pem"),
        *("/proc/12/environ", "/proc/12/status", "/var/lib/docker/x/secrets/y", "/srv/a.key.pub"),
        *("/a/credentials", "/a/credentials.d/b", "/a/mycredentials", "/a/secrets.yaml", "/.env"),
        *("/var/spool/cron/crontabs/root", "/a/.config/gcloud/x", "/a/kubeconfig", "/a/shadow-"),
    ]
    samples += [each.replace("*", fill) for each in globs for fill in ("", "x", "x/y")]
    samples = [each for each in samples if not each.endswith(("x/yml", "x/y.json"))]
    for path in (each if each.startswith("/") else f"/srv/{each}" for each in samples):
        assert patterns.match(path) == classifier.is_secret(path), path
        assert patterns.match(path) == classifier.is_secret(path), f"{path} for the second time"


def test_links_are_resolved_as_the_process_sees_them(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "up").symlink_to("../")
    me = os.getpid()
    assert resolve_links("/proc/self/status", 7) == "/proc/7/status"
    assert resolve_links(f"/proc/{me}/cwd/x", me) == f"{Path.cwd()}/x"
    assert resolve_links(f"{tmp_path}/up/y", me) == f"{tmp_path.parent}/y"
    assert resolve_links("/", me) == "/"
    assert "loop" in resolve_links(f"{tmp_path}/loop", me)


def test_git_reads_no_secret_into_its_index(tmp_path: Path) -> None:
    for command in ("git add app", "git -C app stage .", "git commit -am x"):
        assert judged(command, tmp_path).refused_reads, command
    assert not judged("git status", tmp_path).refused_reads


def test_what_a_person_approved_reads_all_that_it_finds(tmp_path: Path) -> None:
    action = action_from_description(
        parse_description({"command": "rsync -a --delete app/ /srv/www"})
    )
    effects = ActionReader(analyse_command).read(
        action, ActionContext(cwd=str(tmp_path), home="/home/x")
    )
    assert build_profile(effects).refused_reads
    assert not approved_profile(build_profile(effects)).refused_reads


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_an_interpreter_in_the_home_of_root_counts_only_if_no_one_else_can_change_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Path("/var/lib") / f"hermes-test-{os.getpid()}"
    folder = home / ".versions/bin"
    folder.mkdir(parents=True)
    try:
        monkeypatch.setattr(installed_programs, "ROOT_HOME", str(home))
        file = folder / "python3"
        file.write_bytes(b"")

        def counts(*changed: str) -> bool:
            return is_interpreter_of_root(str(file), file.stat(), changed)

        assert counts()
        assert not counts(str(folder))
        assert not is_interpreter_of_root(str(tmp_path / "python3"), file.stat(), ())
        file.chmod(0o775)
        assert not counts()
        file.chmod(0o755)
        os.chown(file, 65534, -1)
        assert not counts()
        os.chown(file, 0, -1)
        (home / ".versions").chmod(0o777)
        assert not counts()
    finally:
        shutil.rmtree(home)
