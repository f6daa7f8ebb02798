"""The probes that are kept with the states of an incident can be read again, however they ran."""

import msgspec
import pytest

from hermes.app.changes.incident_states import encode_probe, kept_probes
from hermes.core.actions import ConfinementProfile
from hermes.core.errors import HermesError
from hermes.core.events.experiments import IncidentStateKept
from hermes.sre.probes.admission import mark_admitted
from hermes.sre.probes.probe import Probe

PROBE = Probe(
    name="supervisord-nginx", kind="command", what="supervisorctl status", service="nginx"
)


def kept(*probes: str) -> IncidentStateKept:
    return IncidentStateKept(
        run="watch", incident="incident-1", moment="failing", state="s", host="h", probes=probes
    )


@pytest.mark.parametrize("profile", [None, ConfinementProfile()])
def test_a_probe_that_ran_confined_is_kept_as_it_was_declared(
    profile: ConfinementProfile | None,
) -> None:
    admitted = mark_admitted(PROBE, profile)
    assert kept_probes(kept(encode_probe(admitted))) == [PROBE]


def test_a_journal_in_which_a_probe_has_its_confinement_can_be_read() -> None:
    """As it was written once: the watch ended when it wrote a lesson from such an incident."""
    before = msgspec.json.encode(mark_admitted(PROBE, ConfinementProfile())).decode()
    assert '"profile"' in before
    assert kept_probes(kept(before)) == [PROBE]


def test_what_is_no_probe_is_an_error_of_ours() -> None:
    with pytest.raises(HermesError, match="cannot be read"):
        kept_probes(kept('{"name": 1}'))
