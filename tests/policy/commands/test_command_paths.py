"""Where a command reaches: folders, links, secrets, devices, and our own files."""

from pathlib import Path

import pytest
from reading import HOME, OWN, beyond, cases, effects, read

from hermes.policy.actions.reader import resolve_symlinks
from hermes.policy.command_analysis import (
    ALWAYS_DENIED_EFFECTS,
    CommandAnalysis,
    analyse_command,
)

RESOLVED = {
    "rm x": "/srv/app/x",
    "rm ../x": "/srv/x",
    "rm ./a//b/../c": "/srv/app/a/c",
    "rm ~/x": f"{HOME}/x",
    "rm $HOME/x": f"{HOME}/x",
    "cd /tmp && rm x": "/tmp/x",
    "cd /var; cd log; rm x": "/var/log/x",
    "(cd /tmp; true); rm x": "/srv/app/x",
    "pushd /opt; rm x": "/opt/x",
    "rm /tmp/{a,b}": "/tmp/a",
    "rm /proc/self/root/etc/x": "/etc/x",
    "git -C /opt/x status; rm y": "/srv/app/y",
    "env -C /tmp rm x": "/tmp/x",
    "ln -s ../x y/z": "/srv/app/x",
    "ln -s x -t y": "/srv/app/y/x",
    "ln -s a b y/": "/srv/app/y/b",
    "ln -sT ../../x ../y": "/x",
    "ln ../x y/z": "/srv/x",
    "ln -sr ../x y/z": "/srv/x",
    'rm "$X/y"': "…/y",
    "cd $X; rm y": "…/y",
}


@pytest.mark.parametrize("command", RESOLVED)
def test_a_path_is_resolved_as_the_shell_would(command: str) -> None:
    assert RESOLVED[command] in read(command).changes


def test_a_relative_link_is_not_judged_from_the_working_folder() -> None:
    assert "/srv/x" not in read("ln -sT ../x y/z").changes
    assert "secret-read" in effects("ln -s shadow /etc/x")
    assert "self-change" in effects("ln -sT journal.db ~/.hermes/x")


SECRETS = cases(r"""
cat .env*
cat config/id_*
find / -type f | xargs cat
find ~ -type f -newer x | xargs cat
find ~ -type f -newer x -exec cat {} +
find /etc -mtime -1 | xargs grep x
find /home/other -maxdepth 3 -exec head {} +
find / -name shadow -exec cat {} +
find ~ -name 'id_*' -exec cat {} +
xargs -a list cat
xargs --arg-file=list grep x
cat /etc/shadow
cat /etc/shad*
cat /etc/sha??w
cat /etc/../etc/shadow
cat /proc/1/root/etc/shadow
cd /etc && cat shadow
cat ~/.ssh/id_rsa
cat ~/.ssh/*
head .env
grep KEY config/.env.prod
base64 server.key
cat /proc/1/environ
tr a b < /proc/self/environ
cat ~/.aws/credentials
cat ~/.kube/config
F=/etc/shadow; cat $F
cat $(echo /etc/shadow)
echo ~/.ssh/id_rsa | xargs cat
find / -name id_rsa | xargs cat
find / -name id_rsa -exec cat {} +
while read f; do cat $f; done <<< /etc/shadow
jq -R . /etc/shadow
sed -n 'r /etc/shadow' f
awk '{getline < "/etc/shadow"}' f
grep -r . /etc
diff -rN ~ x
rg --hidden . ~
ag -u . ~
diff /etc/shadow /dev/null
wc --files0-from=/etc/shadow
curl file:///etc/shadow
curl http://169.254.169.254/x
curl http://2852039166/
kubectl get secret x -o yaml
kubectl get cm,secrets -o custom-columns=X:.data.p
getent shadow
vault kv get x
echo $DB_PASSWORD
ssh web1 cat /etc/shadow
sudo cat /etc/shadow
python3 -m json.tool ~/.aws/credentials
gh auth token
psql -c 'select * from pg_shadow'
aws secretsmanager get-secret-value --secret-id x
docker exec a cat /app/.env
""")


@pytest.mark.parametrize("command", SECRETS)
def test_reading_a_secret_is_more_than_reading(command: str) -> None:
    assert "secret-read" in effects(command), read(command).commands


NO_SECRETS = cases(r"""
ls -l ~/.ssh/id_rsa
stat /etc/shadow
find / -name '*.pem'
test -f .env
cat ~/.ssh/id_rsa.pub
cat ~/.ssh/known_hosts
cat .env.example
openssl x509 -in server.pem -noout
ssh -i ~/.ssh/id_rsa web1 uptime
jq .key f.json
kubectl --kubeconfig ~/.kube/config get pods
kubectl get secrets
grep /etc/shadow /var/log/audit.log
grep -r foo /etc/nginx
diff -ru /etc/nginx old
cat /var/log/*.log
find ~ -name '*.log' | xargs cat
find ~ | xargs ls -l
find /srv -type f -mtime -1 -exec cat {} +
find . -type f | xargs cat
git ls-files | xargs cat
xargs -a list ls -l
cat *.json conf*
""")


@pytest.mark.parametrize("command", NO_SECRETS)
def test_naming_a_secret_is_not_reading_it(command: str) -> None:
    assert "secret-read" not in effects(command), read(command).commands


OURS = cases(r"""
rm ~/.hermes/policies/a.yaml
rm -rf ~/.hermes
rm -rf ~
rm ~/.herm*/policies/a
echo x > ~/.hermes/policies/a
tee ~/.hermes/journal.db
sed -i s/a/b/ ~/.hermes/policies/a
cp x ~/.hermes/policies/
mv ~/.hermes /tmp/
ln -sf x ~/.hermes/policies/a
chmod -R 777 ~/.hermes
cd ~/.hermes/policies && rm *
truncate -s0 ~/.hermes/journal.db
find ~/.hermes -name '*.yaml' -delete
sqlite3 ~/.hermes/journal.db 'delete from events'
python3 -c 'open("/home/u/.hermes/policies/a","w")'
unknown ~/.hermes/policies/a
sudo rm ~/.hermes/policies/a
ssh localhost rm ~/.hermes/policies/a
git -C ~/.hermes/policies checkout .
docker run -v ~/.hermes:/x alpine true
""")


@pytest.mark.parametrize("command", OURS)
def test_our_own_files_are_on_the_floor_whatever_program_changes_them(command: str) -> None:
    assert {"self-change", "irreversible"} <= effects(command), read(command).commands


def test_reading_our_own_files_is_reading() -> None:
    assert read("cat ~/.hermes/policies/a.yaml").is_read_only
    assert beyond("cp ~/.hermes/policies/a.yaml /tmp/") == {"write"}


def test_the_floor_is_no_wider_than_it_must_be() -> None:
    for command in ("rm -rf /home/u/src/build", "rm -rf /srv/x", "rm -rf /var/log/nginx"):
        assert not effects(command) & ALWAYS_DENIED_EFFECTS, command


def test_a_link_is_followed_where_somebody_can_follow_it() -> None:
    links = {"/srv/app/log": f"{HOME}/.hermes/journal.db", "/usr/bin/vi": "/usr/bin/busybox"}

    def follow(path: str) -> str:
        return links.get(path, path)

    harmless = analyse_command("rm log", cwd="/srv/app", home=HOME, own_paths=OWN)
    assert "self-change" not in harmless.effects
    found = analyse_command("rm log", cwd="/srv/app", home=HOME, own_paths=OWN, lookup=follow)
    assert "self-change" in found.effects
    linked = analyse_command("/usr/bin/vi rm x", cwd="/srv/app", home=HOME, lookup=follow)
    assert linked.commands[0].program == "rm"


def test_a_program_outside_the_systems_folders_is_unknown_even_with_a_known_name() -> None:
    assert "unknown" in effects("/tmp/ls")
    assert {"unknown", "irreversible"} <= effects("/tmp/rm -rf /")


def test_what_a_privilege_is_used_for_decides() -> None:
    assert read("sudo cat /etc/nginx/nginx.conf").is_read_only
    assert "privilege" in effects('sudo cat "$FILE"')
    assert "privilege" in effects("sudo cat file")
    assert "privilege" in effects("sudo less /etc/profile")
    assert "privilege" in effects("sudo bash")


@pytest.mark.parametrize(
    ("command", "effect"),
    [
        ("f() { cat; }; f < .env", "secret-read"),
        ("f() { cat; }; f > /etc/app.conf", "write"),
        ("f() { :; }; f > /etc/passwd", "irreversible"),
        ("f() { git log; }; GIT_PAGER=x f", "exec-dynamic"),
        ("xargs -a .env echo", "secret-read"),
    ],
)
def test_files_that_are_opened_for_a_function_or_a_wrapper_count(command: str, effect: str) -> None:
    assert effect in effects(command)


def test_a_harmless_redirection_of_a_function_is_free() -> None:
    assert not beyond("f() { cat; }; f < notes.txt 2> /dev/null")


def test_links_are_followed_anew_each_time() -> None:
    links: dict[str, str] = {}

    def change() -> frozenset[str]:
        return analyse_command(
            "rm log", cwd="/srv/app", home=HOME, own_paths=OWN, lookup=lambda p: links.get(p, p)
        ).effects

    assert "self-change" not in change()
    links["/srv/app/log"] = f"{HOME}/.hermes/journal.db"
    assert "self-change" in change()


def test_an_analysis_is_repeated_when_the_file_system_answers_otherwise(tmp_path: Path) -> None:
    own, other, link = (tmp_path / name for name in ("policies", "other", "link"))
    own.touch()
    other.touch()
    link.symlink_to(other)

    def judge() -> CommandAnalysis:
        return analyse_command(
            f"echo x > {link}", cwd="/srv", own_paths=[str(own)], lookup=resolve_symlinks
        )

    before = judge()
    assert "self-change" not in before.effects
    assert judge() is before
    link.unlink()
    link.symlink_to(own)
    assert "self-change" in judge().effects
    link.unlink()
    link.hardlink_to(other)
    assert "unknown" in judge().effects
