"""The commands that an escalation offers to people."""

from hermes.core.incident import IncidentDetails
from hermes.skills.supervisors.commands import HostSupervisors
from hermes.skills.supervisors.units import HostUnit, UnitListing
from hermes.sre.escalation.host_scripts import (
    EscalationSubject,
    HostRows,
    ScriptOutput,
    escalation_subject,
    parse_outputs,
)
from hermes.sre.escalation.next_commands import next_commands


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
