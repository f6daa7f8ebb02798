"""The tier of each test file: what it needs, and so how long it takes. Each is a pytest marker.

`unit` is whatever no other tier names: no program is started and nothing is waited for.
"""

from pathlib import PurePosixPath

TIERS = {
    "unit": "no other program, no waiting",
    "command": "runs the hermes command, in processes and terminals",
    "box": "runs commands in gym boxes, sandboxes or confined by the kernel",
    "daemon": "drives a real server: docker, sshd, PostgreSQL, monitors, a local model",
    "torture": "kills processes and breaks disks, many times",
    "corpus": "judges hundreds of examples",
}

FILES_BY_TIER = {
    "command": (
        "app/test_application",
        "app/test_every_road",
        "app/test_hostile_text",
        "cli/",
        "skills/test_exchange_command",
        "skills/test_exchange_homes",
        "skills/test_skills_learning_commands",
        "test_build_checks",
        "test_plugin_page",
    ),
    "box": (
        "app/test_agent_drill",
        "app/test_gym_replay",
        "app/test_skill_of_a_drill",
        "bench/test_confined_differential",
        "cli/test_demo",
        "cli/test_drill_command",
        "environments/",
        "gym/",
        "policy/commands/test_command_against_bash",
        "skills/test_compiler_build",
        "skills/test_compiler_end_to_end",
        "skills/test_learning_from_an_incident",
        "skills/test_playbooks_in_a_box",
        "skills/test_scanner_trial",
        "sre/test_assess",
        "sre/test_commander",
        "sre/test_crew",
        "sre/test_discovery",
        "sre/test_the_watch",
        "tools/test_confined_tools",
        "tools/test_execute_code",
    ),
    "daemon": (
        "environments/test_contract",
        "environments/test_docker",
        "environments/test_kubernetes",
        "environments/test_singularity",
        "environments/test_ssh",
        "environments/test_sudo",
        "gym/test_docker_boxes",
        "memory/embedding/test_minilm",
        "memory/postgres/",
        "models/test_local",
        "web/test_real_monitors",
    ),
    "torture": (
        "agent/test_killed_for_real",
        "memory/search/test_search_processes",
        "memory/test_journal_processes",
        "memory/test_store_faults",
        "sre/test_crew_killed",
        "sre/test_watch_home",
    ),
    "corpus": (
        "policy/test_blind_sets",
        "policy/test_bypasses",
        "policy/test_event_cleaning",
        "policy/test_policy_by_example",
        "policy/test_redaction",
        "skills/test_scanner_corpora",
        "skills/test_scanner_sentences",
    ),
}


def tier_of(path: PurePosixPath) -> str:
    """The tier of a test file, by its path below `tests`; the longest entry counts."""
    text = path.as_posix()
    entries = (
        (len(entry), tier)
        for tier, files in FILES_BY_TIER.items()
        for entry in files
        if text.startswith(entry)
    )
    return max(entries, default=(0, "unit"))[1]
