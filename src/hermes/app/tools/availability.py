"""Whether a tool could be called with what is configured: the keys and names of its engines.

What a tool needs in general is declared with it. What its chosen provider needs is found here.
"""

import shutil
from pathlib import Path

from hermes.core.errors import SettingsError
from hermes.core.plugins import plugin_names, suggest_plugin
from hermes.settings.load import LoadedSettings
from hermes.tools.toolsets import ToolAvailability

ENGINE_GROUPS = {
    "tools.web.search": "search",
    "speech.provider": "speech",
    "speech.speaker": "speech",
}
"""By setting, the group of plug-ins whose names it takes."""
_KEYED_SEARCH = ("brave", "tavily", "exa", "firecrawl")
_SEARCH_KEY = "tools.web.search"

Lack = tuple[str, str]
"""What is missing, and how to get it."""


def find_engine_problem(setting: str, name: str, home: Path) -> str:
    """Return why the setting cannot have that value; empty when there is such an engine."""
    group = ENGINE_GROUPS.get(setting)
    if not group or not name or name in plugin_names(group, home):
        return ""
    return f"no {group} named {name!r}; {suggest_plugin(group, name, home)}"


def check_configuration(
    tool: str, loaded: LoadedSettings, model: str = ""
) -> ToolAvailability | None:
    """Return what the provider of a tool lacks; None when the tool could be called. `model` is that
    of the conversation."""
    match tool:
        case "image_generate":
            lack = _image_lack(loaded)
        case "vision_analyze":
            lack = _vision_lack(loaded, model)
        case "mixture_of_agents":
            lack = _mixture_lack(loaded)
        case "web_search":
            lack = _search_lack(loaded)
        case "transcribe" | "text_to_speech":
            lack = _speech_lack(loaded, tool)
        case _:
            lack = None
    if lack is None:
        return None
    return ToolAvailability(tool=tool, available=False, why=lack[0], how=lack[1])


def _key_lack(loaded: LoadedSettings, variable: str) -> Lack | None:
    if not variable or loaded.secrets.get(variable):
        return None
    return f"missing: the key {variable}", f"hermes config set {variable} <value>"


def _image_lack(loaded: LoadedSettings) -> Lack | None:
    from hermes.app.tools.model_tools import image_key_variable, image_provider

    provider = image_provider(loaded)
    return _key_lack(loaded, image_key_variable(loaded, provider)) if provider else None


def _vision_lack(loaded: LoadedSettings, model: str) -> Lack | None:
    from hermes.app.tools.model_tools import model_key_variable, vision_reference

    reference = vision_reference(loaded, model)
    return _key_lack(loaded, model_key_variable(loaded, reference)) if reference else None


def _mixture_lack(loaded: LoadedSettings) -> Lack | None:
    """Return what the first mixture lacks, which is the one that the tool asks."""
    from hermes.app.tools.model_tools import model_key_variable
    from hermes.models.mixture import MIN_ANSWERS, find_mixture

    settings = loaded.settings.model
    if not settings.mixtures:
        return None
    try:
        references, aggregator = find_mixture(next(iter(settings.mixtures)), settings)
    except SettingsError as error:
        return str(error), "hermes config check"
    lacks = [_key_lack(loaded, model_key_variable(loaded, each)) for each in references]
    if lacks.count(None) < min(MIN_ANSWERS, len(references)):
        return next(filter(None, lacks))
    return _key_lack(loaded, model_key_variable(loaded, aggregator))


def _search_lack(loaded: LoadedSettings) -> Lack | None:
    """Return None when one of the named providers can be asked."""
    lacks: list[Lack] = []
    for name in loaded.settings.tools.web.search:
        lack = _provider_lack(loaded, name)
        if lack is None:
            return None
        lacks.append(lack)
    return lacks[0] if lacks else None


def _provider_lack(loaded: LoadedSettings, name: str) -> Lack | None:
    if problem := find_engine_problem(_SEARCH_KEY, name, loaded.home):
        return _named_lack(_SEARCH_KEY, problem)
    if name == "searxng" and not getattr(loaded.settings.systems.get(name), "url", ""):
        return "missing: the setting systems.searxng.url", "hermes config set SEARXNG_URL <url>"
    return _key_lack(loaded, f"{name.upper()}_API_KEY") if name in _KEYED_SEARCH else None


def _named_lack(setting: str, problem: str) -> Lack:
    why, _, how = problem.partition("; ")
    return f"{setting}: {why}", how


def _speech_lack(loaded: LoadedSettings, tool: str) -> Lack | None:
    from hermes.app.tools.speech import LOCAL_SPEAKERS, speaker_name, transcriber_name

    speech = loaded.settings.speech
    transcribes = tool == "transcribe"
    name = transcriber_name(loaded) if transcribes else speaker_name(loaded)
    setting = "speech.provider" if transcribes else "speech.speaker"
    if problem := find_engine_problem(setting, name, loaded.home):
        return _named_lack(setting, problem)
    if name == "openai" and not speech.url:
        return _key_lack(loaded, speech.key_variable)
    if name == "command" and not speech.command:
        how = "hermes config set speech.command 'whisper-cli -m <model> -nt -np -f {audio}'"
        return "missing: the setting speech.command", how
    if name in LOCAL_SPEAKERS and shutil.which(name, path=loaded.secrets.get("PATH")) is None:
        return f"missing: the program {name}", f"install {name}, such as: apt install {name} ffmpeg"
    return None
