"""The earlier name of `hermes.gym.scenario_spec`, for scenarios of other authors."""

from typing import Any

from hermes.plumbing.renamed import find_renamed

NEW_NAMES = {
    "Severity": "Severity",
    "Group": "ScenarioGroup",
    "Answer": "ExpectedResponse",
    "File": "HostFile",
    "Folder": "HostFolder",
    "Disk": "HostDisk",
    "Host": "HostSpec",
    "Http": "HttpCheck",
    "Port": "PortCheck",
    "Space": "DiskSpaceCheck",
    "Running": "UnitRunningCheck",
    "Script": "ScriptCheck",
    "Same": "UnchangedCheck",
    "Check": "ScenarioCheck",
    "Trigger": "FaultTrigger",
    "Fault": "FaultDescription",
    "Alert": "ScenarioAlert",
    "Traffic": "TrafficSpec",
    "Story": "ScenarioSpec",
}


def __getattr__(name: str) -> Any:
    return find_renamed(__name__, "hermes.gym.scenario_spec", NEW_NAMES, name)
