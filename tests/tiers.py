"""The tier of each test file: what it needs, and so how long it takes. Each is a pytest marker.

`unit` is whatever no other tier names: no program is started and nothing is waited for. A test of
`unit` or `corpus` that starts one fails (`program_starts.py`).
"""

import re
from pathlib import PurePosixPath

TIERS = {
    "unit": "no other program, no waiting",
    "command": "starts hermes and other programs, or waits for their rhythm",
    "box": "runs commands in gym boxes, sandboxes or confined by the kernel",
    "daemon": "drives a real server: docker, sshd, PostgreSQL, monitors, a local model",
    "torture": "kills processes and breaks disks, many times",
    "corpus": "judges hundreds of examples",
}

FILES_BY_TIER = {
    "command": (
        "editors/",
        "app/chats/",
        "app/checks/test_health_answers",
        "app/checks/test_own_logs",
        "app/hooks/test_event_webhooks",
        "app/hooks/test_hook_runner",
        "app/journal/test_audit",
        "app/schedule/test_job_parts",
        "app/test_announcements",
        "app/test_application",
        "app/test_every_road",
        "app/test_hostile_text",
        "app/test_lazy_policy",
        "app/test_rules_about_people",
        "app/test_watch_in_a_chat",
        "app/tools/test_chat_jobs",
        "app/tools/test_model_tools",
        "app/tools/test_speech",
        "cli/",
        "core/test_plugins",
        "declared/test_authors",
        "declared/test_collect",
        "declared/test_port_holders",
        "declared/test_put_back",
        "declared/test_rules_in_force",
        "gateway/channels/",
        "gateway/test_channel_loading",
        "gateway/test_outbox",
        "learning/test_fix_commands",
        "learning/test_people_fix",
        "memory/facts/test_facts_store",
        "memory/test_buffered_journal",
        "memory/test_held_copy",
        "memory/test_migration",
        "memory/test_salvage",
        "models/test_model_http",
        "plumbing/test_http_",
        "policy/test_foreign_commits",
        "policy/test_repository_",
        "previous_version/",
        "settings/test_settings_change",
        "skills/test_automatic_review",
        "skills/test_daemons_with_init_scripts",
        "skills/test_exchange_command",
        "skills/test_exchange_homes",
        "skills/test_hub",
        "skills/test_playbook_runner",
        "skills/test_redis_runtime_setting",
        "skills/test_blocking_session",
        "skills/test_left_over_file",
        "skills/test_upstream_port",
        "skills/test_job_failing",
        "skills/test_lock_probe",
        "skills/test_postgres_start",
        "skills/test_skills_learning_commands",
        "sre/test_config_edits",
        "sre/test_escalation_facts",
        "sre/test_expected_services",
        "sre/test_experiment_responder",
        "sre/test_fix_tests_of_incidents",
        "sre/test_killed_after_a_change",
        "sre/test_learned_watch",
        "sre/test_own_scripts",
        "sre/test_patrol",
        "sre/test_probe_",
        "sre/test_reflexes",
        "sre/test_scouting",
        "sre/test_services_behind",
        "sre/test_trouble_ahead",
        "sre/test_undo_of_files",
        "test_build_checks",
        "test_plugin_page",
        "test_workers",
        "tools/test_bundled_systems",
        "tools/test_command_tool",
        "tools/test_executor",
        "tools/test_patch",
        "tools/test_picture_results",
        "tools/test_planning",
        "tools/test_process",
        "tools/test_read_file",
        "tools/test_search_files",
        "tools/test_session_search",
        "tools/test_skill_tools",
        "tools/test_terminal",
        "tools/test_web_tools",
        "tools/test_write_file",
        "web/test_receiver",
    ),
    "box": (
        "app/changes/test_experiments_in_a_box",
        "app/changes/test_experiments_under_supervisors",
        "app/copies/test_contrast_checks",
        "app/copies/test_fix_tests",
        "app/drills/test_agent_drill",
        "app/incidents/test_lessons",
        "app/skills/test_gym_replay",
        "app/skills/test_skill_of_a_drill",
        "bench/test_confined_differential",
        "cli/test_demo",
        "cli/test_drill_command",
        "environments/",
        "gym/",
        "policy/commands/test_command_against_bash",
        "skills/test_compiler_build",
        "skills/test_compiler_end_to_end",
        "skills/test_exchange_evidence",
        "skills/test_learning_from_an_incident",
        "skills/test_playbooks_in_a_box",
        "skills/test_port_taken",
        "skills/test_playbooks_under_supervisors",
        "skills/test_probe_cost",
        "skills/test_scanner_trial",
        "skills/test_services_under_other_names",
        "skills/test_supervisord_elsewhere",
        "skills/test_supervisors",
        "sre/test_assess",
        "sre/test_commander",
        "sre/test_crew",
        "sre/test_discovery",
        "sre/test_last_words",
        "sre/test_confined_mounts",
        "sre/test_port_holder_lines",
        "sre/test_sizing_up",
        "sre/test_the_watch",
        "tools/test_confined_tools",
        "tools/test_execute_code",
    ),
    "daemon": (
        "app/web/test_dashboard_in_a_browser",
        "environments/test_compose",
        "environments/test_contract",
        "environments/test_docker",
        "environments/test_kubernetes",
        "kubernetes/",
        "environments/test_singularity",
        "environments/test_ssh",
        "environments/test_sudo",
        "gym/test_docker_boxes",
        "memory/embedding/test_minilm",
        "memory/postgres/",
        "models/test_local",
        "tools/test_database_tools",
        "web/test_real_monitors",
        "web/test_real_systems",
    ),
    "torture": (
        "app/channels/test_killed_gateway",
        "app/hooks/test_killed_hooks",
        "agent/test_killed_for_real",
        "declared/test_recording_killed",
        "gateway/test_delivery_kills",
        "memory/search/test_search_processes",
        "memory/test_journal_processes",
        "memory/test_store_faults",
        "scheduler/test_killed_schedule",
        "sre/test_crew_killed",
        "sre/test_watch_home",
    ),
    "corpus": (
        "memory/test_event_format",
        "policy/commands/test_command_properties",
        "policy/test_blind_sets",
        "policy/test_bypasses",
        "policy/test_event_cleaning",
        "policy/test_policy_by_example",
        "policy/test_policy_properties",
        "policy/test_redaction",
        "policy/test_taint",
        "skills/test_scanner_corpora",
        "skills/test_scanner_sentences",
    ),
}

# Files of one group run one after the other, in one process, and share their daemon.
DAEMON_GROUPS = {
    "docker": (
        "environments/test_docker",
        "environments/test_remote_confined",
        "gym/test_docker_boxes",
    ),
    "ssh": ("environments/test_ssh", "environments/test_sudo"),
    "postgres": ("memory/postgres/", "memory/test_journal_contract"),
}
# The slow tiers begin first, so that no process is left alone with one of them at the end.
ORDER = ("daemon", "torture", "box", "command", "corpus", "unit")


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


def possible_tiers(path: PurePosixPath, text: str) -> set[str]:
    """Of the tests in a file with this text: marks on tests may name other tiers than its own."""
    marks = set(re.findall(r"\bmark\.(\w+)", text))
    return {tier_of(path), *(marks & TIERS.keys())}


def selects_only_tiers(expression: str) -> bool:
    """Whether an expression for `pytest -m` names tiers and no other marks."""
    words = set(re.findall(r"\w+", expression)) - {"and", "or", "not"}
    return bool(words) and words <= TIERS.keys()


def process_group(nodeid: str) -> str:
    """Tests of one group run in one process, one after the other: those of a file, which share what
    its fixtures start, and files that share a daemon. Each environment of the contract is one."""
    path, _, test = nodeid.removeprefix("tests/").partition("::")
    if path == "environments/test_contract.py":
        place = test.partition("[")[2].rstrip("]").partition("-")[0]
        return place if place in DAEMON_GROUPS else f"{path} {place}"
    found = [name for name, starts in DAEMON_GROUPS.items() if path.startswith(starts)]
    return found[0] if found else path
