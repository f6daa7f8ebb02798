"""The earlier names of `hermes.gym.services.*`, for scenarios of other authors.

The modules of this package have no files: each is an object in `sys.modules`.
"""

import sys
from collections.abc import Mapping
from functools import partial
from types import ModuleType

from hermes.plumbing.renamed import find_renamed

_PYTHON_SERVICE = "hermes.gym.services.python_service"
_POSTGRES = "hermes.gym.services.postgres"
_REDIS = "hermes.gym.services.redis"
_NGINX = "hermes.gym.services.nginx"
_SHELL_SCRIPTS = "hermes.gym.services.shell_scripts"
_COMBINE = "hermes.gym.scenarios.combine"

MODULES: dict[str, tuple[str, dict[str, str]]] = {
    "microweb": (
        _PYTHON_SERVICE,
        {
            "STYLES": "LOG_STYLES",
            "SHELF": "ITEM_LIST_PROGRAM",
            "program": "render_program",
            "filled": "fill_program",
        },
    ),
    "shop": (_PYTHON_SERVICE, {"shop": "shop_service", "unit": "service_unit"}),
    "premises": (
        _PYTHON_SERVICE,
        {
            "PYTHON": "PYTHON_COMMAND",
            "Premises": "ServiceLayout",
            "premises": "draw_layout",
            "Neighbour": "NeighbourService",
            "neighbour": "draw_neighbour",
            "alert": "draw_alert",
            "changes": "change_log_script",
            "by_hand": "start_unsupervised_script",
        },
    ),
    "pg_found": (
        _POSTGRES,
        {
            "DEBIAN": "DEBIAN_POSTGRESQL_FOLDER",
            "Server": "PostgresInstallation",
            "USUAL": "ASSUMED_INSTALLATION",
            "server": "find_installation",
        },
    ),
    "pg_template": (
        _POSTGRES,
        {
            "FOLDER": "CLUSTER_CACHE_FOLDER",
            "NAME": "CLUSTER_FILE_NAME",
            "DATABASE": "TEMPLATE_DATABASE",
            "INITDB": "INITDB_OPTIONS",
            "cluster": "packed_cluster",
        },
    ),
    "pg_client": (_POSTGRES, {"PG_CLIENT": "PG_CLIENT"}),
    "pg_server": (
        _POSTGRES,
        {
            "NEEDS": "POSTGRES_NEEDS",
            "USERS": "POSTGRES_HOST_USERS",
            "OWNER": "POSTGRES_UID",
            "Postgres": "PostgresServer",
            "postgres": "postgres_server",
        },
    ),
    "redis_server": (
        _REDIS,
        {
            "NEEDS": "REDIS_NEEDS",
            "CLIENT": "REDIS_CLIENT",
            "Redis": "RedisServer",
            "redis": "redis_server",
        },
    ),
    "nginx": (
        _NGINX,
        {
            "NEEDS": "NGINX_NEEDS",
            "WORKER": "NGINX_WORKER_UID",
            "Nginx": "NginxServer",
            "nginx": "nginx_server",
        },
    ),
    "pki": (_NGINX, {"AUTHORITY": "AUTHORITY_FILE", "first_pairs": "certificates_script"}),
    "afresh": (
        _SHELL_SCRIPTS,
        {"afresh": "clean_restart_triggers", "up": "wait_until_listening_script"},
    ),
    "hands": (
        _SHELL_SCRIPTS,
        {
            "asking": "requests_script",
            "remembered": "shell_history_script",
            "others_kept": "other_settings_unchanged",
            "served_by": "served_by_unit",
        },
    ),
    "shell_lines": (
        _SHELL_SCRIPTS,
        {"ask_often": "checked_requests_script", "moves": "number_grows_script"},
    ),
    "compose": (
        _COMBINE,
        {
            "TRIES": "MAX_DRAW_ATTEMPTS",
            "drawn": "draw_scenario",
            "joined": "combine_faults",
            "with_decoy": "add_decoy",
        },
    ),
}


def _module(old: str, new: str, names: Mapping[str, str]) -> ModuleType:
    module = ModuleType(f"{__name__}.{old}", f"The earlier name of `{new}`.")
    vars(module)["__getattr__"] = partial(find_renamed, module.__name__, new, names)
    return module


for _old, (_new, _names) in MODULES.items():
    globals()[_old] = sys.modules[f"{__name__}.{_old}"] = _module(_old, _new, _names)
