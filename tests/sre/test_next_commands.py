"""The commands that an escalation offers to people."""

from datetime import UTC, datetime

from hermes.core.incident import IncidentDetails
from hermes.skills.supervisors.commands import HostSupervisors
from hermes.skills.supervisors.units import HostUnit, UnitListing
from hermes.sre.escalation.host_lines import digest, error_lines, named_lines
from hermes.sre.escalation.host_scripts import (
    EscalationSubject,
    HostRows,
    ScriptOutput,
    escalation_subject,
    named_scripts,
    parse_outputs,
)
from hermes.sre.escalation.next_commands import LOGIN_VIEWS, STATE_VIEWS, next_commands
from hermes.sre.policies import is_read_only


def test_no_restart_is_proposed_while_the_configuration_would_prevent_the_start() -> None:
    text = "bad\nasked by the probe config-web (config nginx:/srv/nginx.conf)"
    details = IncidentDetails(incident="i", run="i", title="bad", service="web", text=text)
    subject = escalation_subject(details)
    unit = HostUnit(name="web", kind="supervisord", state="active", pid=7, place="/srv/sup.conf")
    found = HostRows({}, {}, (), UnitListing(units=(unit,)))
    proposed = [
        each.command for each in next_commands(found, subject, HostSupervisors([unit]), (), ())
    ]
    assert proposed[0] == "nginx -t -c /srv/nginx.conf"
    assert not any("restart" in each for each in proposed)


def test_an_init_script_is_called_as_a_person_would_call_it() -> None:
    unit = HostUnit(name="nginx", kind="sysvinit", state="active", pid=7)
    found = HostRows({}, {}, (), UnitListing(units=(unit,)))
    proposed = next_commands(
        found, EscalationSubject(service="nginx"), HostSupervisors([unit]), (), ()
    )
    assert proposed[-1].command == "service nginx restart"


def test_the_file_that_was_refused_comes_before_others_that_the_error_names() -> None:
    errors = (
        'File "/srv/shop/app.py", line 9, in <module>',
        "PermissionError: [Errno 13] Permission denied: '/srv/shop/config.dat'",
    )
    text = "path=/srv/shop/app.py\tregular file\troot\t-rw-r--r--\n"
    text += "path=/srv/shop/config.dat\tregular file\troot\t-rw-------\n"
    found = parse_outputs([ScriptOutput("named", "named", text)], {"named": 1})
    proposed = next_commands(
        found, EscalationSubject(service="shop"), HostSupervisors([]), errors, ()
    )
    assert proposed[0].command == "ls -ld /srv/shop/config.dat"


def test_a_refused_login_leads_to_the_settings_without_their_secrets() -> None:
    found = parse_outputs([ScriptOutput("p", "p", REDIS_PROCESS)], {"p": 1})
    subject = EscalationSubject(service="redis-server", login_refused=True)
    proposed = [each.command for each in next_commands(found, subject, HostSupervisors([]))]
    assert proposed[0] == LOGIN_VIEWS["redis"][0]
    assert all(is_read_only(command) for command, _ in LOGIN_VIEWS.values())


def test_a_service_that_accepts_nothing_is_not_asked() -> None:
    """Whoever asks it waits, too."""
    redis = EscalationSubject(service="redis", ports=(6379,))
    asked = STATE_VIEWS["redis"][0]
    for more, stopped in (("", False), ("queue=6379\t00000041", True)):
        found = parse_outputs([ScriptOutput("p", "p", f"{REDIS_PROCESS}{more}")], {"p": 1})
        proposed = [each.command for each in next_commands(found, redis, HostSupervisors([]))]
        assert (asked not in proposed) is stopped


REDIS_PROCESS = "process=7\t1\tS\t9\tinit\tredis-server\tredis-server\n"


def test_a_file_in_a_closed_folder_is_shown_once() -> None:
    text = "path=/srv/shop/data\tregular file\troot\t-rw-r--r--\n"
    text += "closed=/srv/shop\troot\tdrwx------\t/srv/shop/data\n"
    found = parse_outputs([ScriptOutput("named", "named", text)], {"named": 1})
    errors = ["open /srv/shop/data: Permission denied"]
    proposed = next_commands(found, EscalationSubject(), HostSupervisors([]), errors)
    shown = [each.command for each in proposed if "/srv/shop/data" in each.command]
    assert shown == ["namei -l /srv/shop/data"]


def test_an_error_about_a_file_is_none_about_a_name() -> None:
    """`FileNotFoundError` contains the word ENOTFOUND of Node.js."""
    subject = EscalationSubject(service="shop")
    error = "shop.log: FileNotFoundError: [Errno 2] No such file or directory: '/srv/shop/a'"
    (named,) = [head for name, head in named_scripts(subject, [error]) if name == "named"]
    assert "resolver=0" in named
    (named,) = [head for _, head in named_scripts(subject, ["getaddrinfo ENOTFOUND db.shop.lan"])]
    assert "resolver=1" in named


APACHE_ERROR = (
    "[Wed Nov 18 18:20:27.664161 2026] [wsgi:error] [pid 1042:tid 1112] [remote 127.0.0.1:34564]"
    " ERROR /basket OperationalError (2003, \"Can't connect to MySQL server on 'db.shop.lan'"
    ' ([Errno -3] Temporary failure in name resolution)")'
)


def test_the_port_of_a_client_is_no_port_of_a_service() -> None:
    text = f"80 lines a minute; {APACHE_ERROR}\nasked by the probe log-a (log /var/log/a.log)"
    details = IncidentDetails(incident="i", run="i", title="t", service="apache2", text=text)
    subject = escalation_subject(details)
    assert subject.ports == ()
    assert [name for name, _ in named_scripts(subject, [APACHE_ERROR])] == ["named"]
    refused = "connect() to 127.0.0.1:9000 failed, client: 127.0.0.1:50312"
    assert ("ports", "ports=9000") in list(named_scripts(subject, [refused]))


def test_an_error_of_apache_is_shown_without_its_process_and_its_client() -> None:
    (shown,) = digest([APACHE_ERROR])
    assert shown.startswith("[Nov 18 18:20:27 2026] [wsgi:error] ERROR /basket Operational")


def test_an_error_of_apache_before_the_outage_is_called_older() -> None:
    log = "log=/var/log/apache2/error.log\t1795026327\n"
    found = parse_outputs([ScriptOutput("logs", "l", f"{log}said={APACHE_ERROR}")], {"l": 1})
    began = datetime(2026, 11, 18, 18, 24, 54, tzinfo=UTC)
    (line,) = [each for each in error_lines(found, began) if "basket" in each.text]
    assert (line.about, "before it failed" in line.text) == ("log", True)


def test_a_name_that_cannot_be_resolved_leads_to_the_name_servers() -> None:
    subject = EscalationSubject(service="apache2")
    ((name, head),) = named_scripts(subject, [APACHE_ERROR])
    assert "resolver=1" in head and "hosts=db.shop.lan" in head
    text = "resolver=127.0.0.1\t1\nunresolved=db.shop.lan\n"
    found = parse_outputs([ScriptOutput(name, name, text)], {name: 1})
    unit = HostUnit(name="apache2", kind="sysvinit", state="active", pid=7)
    proposed = next_commands(found, subject, HostSupervisors([unit]), [APACHE_ERROR])
    commands = [each.command for each in proposed]
    assert commands[:2] == ["cat /etc/resolv.conf", "getent hosts db.shop.lan"]
    assert not any("restart" in each for each in commands)
    (line,) = named_lines(found, APACHE_ERROR)
    assert line.text == (
        "db.shop.lan cannot be resolved; name servers of /etc/resolv.conf: 127.0.0.1,"
        " where nothing listens at port 53"
    )


def test_no_start_is_proposed_while_its_configuration_test_fails() -> None:
    unit = HostUnit(name="apache2", kind="sysvinit", state="inactive")
    found = HostRows({}, {"processes": 1}, (), UnitListing(units=(unit,)))
    for broken in (True, False):
        subject = EscalationSubject(service="apache2", kind="http")
        proposed = next_commands(found, subject, HostSupervisors([unit]), broken=broken)
        commands = [each.command for each in proposed]
        assert ("service apache2 start" in commands) is not broken


def test_the_probe_of_a_database_names_its_port() -> None:
    text = "no answer from mysql\nasked by the probe mysql-3306 (mysql 3306)"
    details = IncidentDetails(incident="i", run="i", title="t", service="mariadbd", text=text)
    assert escalation_subject(details).ports == (3306,)


def test_a_replica_without_its_master_is_shown_and_its_end_left_to_people() -> None:
    said = "it is a replica and its master does not answer"
    text = f"{said}\nasked by the probe r (redis 127.0.0.1:6380)"
    details = IncidentDetails(incident="i", run="i", title="bad", service="redis-server", text=text)
    found = HostRows({}, {}, (), UnitListing())
    proposed = next_commands(found, escalation_subject(details), HostSupervisors([]), (), ())
    shown = [each.command for each in proposed]
    assert shown[0] == "redis-cli -p 6380 info replication"
    assert shown[-1] == "redis-cli -p 6380 replicaof no one"
    other = IncidentDetails(incident="i", run="i", title="bad", service="web", text=text)
    assert not any(
        "replicaof" in each.command
        for each in next_commands(found, escalation_subject(other), HostSupervisors([]), (), ())
    )
