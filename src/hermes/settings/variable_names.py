"""Which variable sets which key: the names of earlier versions, and a rule for all the others."""

from collections.abc import Mapping

VARIABLE_PREFIX = "HERMES_"

KEY_BY_VARIABLE: Mapping[str, str] = {
    "DEFAULT_MODEL": "model.default",
    "HERMES_MODEL": "model.default",
    "HERMES_MAX_ITERATIONS": "agent.max_iterations",
    "HERMES_TOOL_PROGRESS": "display.tool_progress",
    "HERMES_TOOL_PROGRESS_MODE": "display.tool_progress_mode",
    "MEMORY_DB_URL": "store.url",
    "TERMINAL_ENV": "terminal.backend",
    "TERMINAL_CWD": "terminal.cwd",
    "TERMINAL_TIMEOUT": "terminal.timeout",
    "TERMINAL_DOCKER_IMAGE": "terminal.docker_image",
    "TERMINAL_SINGULARITY_IMAGE": "terminal.singularity_image",
    "TERMINAL_MODAL_IMAGE": "terminal.modal_image",
    "TERMINAL_SSH_HOST": "terminal.ssh_host",
    "TERMINAL_SSH_USER": "terminal.ssh_user",
    "TERMINAL_SSH_KEY": "terminal.ssh_key",
    "TERMINAL_SSH_PORT": "terminal.ssh_port",
}
"""Variable → dotted key. `HERMES_<SECTION>__<KEY>` needs no line here."""

UNSUPPORTED_VARIABLES: Mapping[str, str] = {
    "MESSAGING_CWD": "there is no messaging gateway yet",
}
"""Known, and without effect in this version: `hermes config check` says so."""

PROVIDER_VARIABLE = "LLM_PROVIDER"
MODEL_VARIABLE = "DEFAULT_MODEL"


def key_for_variable(name: str) -> tuple[str, ...] | None:
    """The key that a variable sets, or None when it is not a setting of ours."""
    if name in KEY_BY_VARIABLE:
        return tuple(KEY_BY_VARIABLE[name].split("."))
    if name.startswith(VARIABLE_PREFIX) and "__" in name[len(VARIABLE_PREFIX) :]:
        return tuple(part.lower() for part in name[len(VARIABLE_PREFIX) :].split("__"))
    return None


def variables_for(key: str) -> list[str]:
    """The variables that set a key, the general one last."""
    known = [name for name, target in KEY_BY_VARIABLE.items() if target == key]
    return [*known, VARIABLE_PREFIX + key.upper().replace(".", "__")]


def apply_provider_variable(
    inside: Mapping[str, str], outside: Mapping[str, str]
) -> tuple[dict[str, str], dict[str, str]]:
    """`LLM_PROVIDER=openai` beside `DEFAULT_MODEL=gpt-4o` means `openai:gpt-4o`; the two may
    stand in different places. Alone it means that provider's first model."""
    inside, outside = dict(inside), dict(outside)
    place = outside if outside.get(PROVIDER_VARIABLE) else inside
    provider = place.get(PROVIDER_VARIABLE)
    if not provider:
        return inside, outside
    if not inside.get(MODEL_VARIABLE) and not outside.get(MODEL_VARIABLE):
        place[MODEL_VARIABLE] = _first_model(provider)
    for values in (inside, outside):
        model = values.get(MODEL_VARIABLE, "")
        if model and ":" not in model.split("/")[0]:
            values[MODEL_VARIABLE] = f"{provider}:{model}"
    return inside, outside


def _first_model(provider: str) -> str:
    from hermes.models.catalog import model_catalog  # noqa: PLC0415 - few installations need it

    known = model_catalog().providers.get(provider)
    return next(iter(known.models), "") if known else ""
