"""Maps variables to keys: names of earlier versions, and a rule for all others."""

from collections.abc import Mapping

VARIABLE_PREFIX = "HERMES_"

KEY_BY_VARIABLE: Mapping[str, str] = {
    "DEFAULT_MODEL": "model.default",
    "HERMES_MODEL": "model.default",
    "HERMES_MAX_ITERATIONS": "agent.max_iterations",
    "HERMES_TOOL_PROGRESS": "display.tool_progress",
    "HERMES_TOOL_PROGRESS_MODE": "display.tool_progress_mode",
    "MEMORY_DB_URL": "store.url",
    "SEARXNG_URL": "systems.searxng.url",
    "FIRECRAWL_API_URL": "systems.firecrawl.url",
    **{
        f"{name.upper()}_{key}": f"channels.{name}.{key.lower()}"
        for name in (
            *("telegram", "slack", "discord", "whatsapp"),
            *("signal", "mattermost", "matrix", "email"),
        )
        for key in ("ALLOWED_USERS", "ALLOWED_GROUPS", "HOME_CHANNEL")
    },
    "SIGNAL_HTTP_URL": "channels.signal.url",
    "SIGNAL_ACCOUNT": "channels.signal.account",
    "WHATSAPP_PHONE_NUMBER_ID": "channels.whatsapp.phone_number_id",
    "MATTERMOST_URL": "channels.mattermost.url",
    "MATRIX_HOMESERVER": "channels.matrix.homeserver",
    "EMAIL_ADDRESS": "channels.email.address",
    "EMAIL_SMTP_HOST": "channels.email.smtp_host",
    "EMAIL_IMAP_HOST": "channels.email.imap_host",
    "MESSAGING_CWD": "channels.talk.cwd",
    "HERMES_HUMAN_DELAY_MODE": "channels.talk.human_delay_mode",
    "HERMES_HUMAN_DELAY_MIN_MS": "channels.talk.human_delay_min_ms",
    "HERMES_HUMAN_DELAY_MAX_MS": "channels.talk.human_delay_max_ms",
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
"""Variable → dotted key. `HERMES_<SECTION>__<KEY>` needs no entry."""

PROVIDER_VARIABLE = "LLM_PROVIDER"
MODEL_VARIABLE = "DEFAULT_MODEL"


def key_for_variable(name: str) -> tuple[str, ...] | None:
    """Return the key that a variable sets; None when it sets none."""
    if name in KEY_BY_VARIABLE:
        return tuple(KEY_BY_VARIABLE[name].split("."))
    if name.startswith(VARIABLE_PREFIX) and "__" in name[len(VARIABLE_PREFIX) :]:
        return tuple(part.lower() for part in name[len(VARIABLE_PREFIX) :].split("__"))
    return None


def variables_for(key: str) -> list[str]:
    """Return the variables that set a key, the general one last."""
    known = [name for name, target in KEY_BY_VARIABLE.items() if target == key]
    return [*known, VARIABLE_PREFIX + key.upper().replace(".", "__")]


def apply_provider_variable(
    file_variables: Mapping[str, str], process_variables: Mapping[str, str]
) -> tuple[dict[str, str], dict[str, str]]:
    """`LLM_PROVIDER=openai` with `DEFAULT_MODEL=gpt-4o` means `openai:gpt-4o`, also across sources.

    Without `DEFAULT_MODEL` it means the first model of that provider.
    """
    file_variables, process_variables = dict(file_variables), dict(process_variables)
    source = process_variables if process_variables.get(PROVIDER_VARIABLE) else file_variables
    provider = source.get(PROVIDER_VARIABLE)
    if not provider:
        return file_variables, process_variables
    if not file_variables.get(MODEL_VARIABLE) and not process_variables.get(MODEL_VARIABLE):
        source[MODEL_VARIABLE] = _first_model(provider)
    for values in (file_variables, process_variables):
        model = values.get(MODEL_VARIABLE, "")
        if model and ":" not in model.split("/")[0]:
            values[MODEL_VARIABLE] = f"{provider}:{model}"
    return file_variables, process_variables


def _first_model(provider: str) -> str:
    from hermes.models.catalog import model_catalog  # noqa: PLC0415 - few installations need it

    known = model_catalog().providers.get(provider)
    return next(iter(known.models), "") if known else ""
