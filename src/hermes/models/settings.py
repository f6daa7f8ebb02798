"""Settings of language models."""

from typing import Literal

import msgspec


class ProviderSettings(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """A provider of one's own, or other values for one of the catalogue. Empty: as catalogued."""

    base_url: str = ""
    """Where its API begins, with the version: https://host/v1."""
    dialect: str = ""
    """How it is spoken to: openai, anthropic, or the name of an installed plug-in."""
    key_variable: str = ""
    """Name of the secret that holds its key; `none` when it wants none."""
    headers: dict[str, str] = {}
    """Sent with every request, beside what the dialect sends."""
    window: int = 0
    """Tokens that fit into a model of which the catalogue knows nothing."""
    vision: bool = False
    """Whether models of which the catalogue knows nothing take pictures."""


class LocalSettings(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """The model that runs inside this process (`local:`)."""

    path: str = ""
    """A GGUF file; empty: the small weights that the extra `local` brings."""
    adapter: str = ""
    """A LoRA adapter in GGUF form, empty for none."""
    adapter_scale: float = 1.0
    """How strongly the adapter weighs."""
    threads: int = 0
    """Processor threads; 0 chooses by the load of the machine."""
    context: int = 4096
    """Tokens that fit."""


class MixtureSettings(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """Several models that answer together, as `moa:NAME` and by `mixture_of_agents`."""

    references: tuple[str, ...] = ()
    """Asked side by side, without tools."""
    aggregator: str = ""
    """Reads their answers and acts; empty: the default model."""


class ModelSettings(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """Which models answer, and how patient we are with them."""

    default: str = "openrouter:anthropic/claude-sonnet-5.5"
    """The model that answers when nothing else is said: `provider:model` or an alias."""
    cheap: str = ""
    """For small chores; empty: the default."""
    strong: str = ""
    """For hard questions; empty: the default."""
    summary: str = ""
    """For compressing long conversations; empty: the default."""
    vision: str = ""
    """Looks at pictures for `vision_analyze` where the chosen model sees none; empty: none does."""
    mixtures: dict[str, MixtureSettings] = {}
    """Models that answer together, by the name after `moa:`."""
    fallbacks: tuple[str, ...] = ()
    """Asked in this order when the chosen model cannot answer."""
    providers: dict[str, ProviderSettings] = {}
    """Providers of one's own, by the name used before the colon."""
    timeout: float = 90.0
    """Seconds of silence within an answer until it counts as stalled."""
    first_token_timeout: float = 300.0
    """Seconds until an answer begins, or until one that is not streamed is there."""
    retries: int = 3
    """How often one model is asked again before the next of the chain."""
    longest_wait: float = 60.0
    """Seconds to wait at most when a provider asks for it; beyond, the next model is tried."""
    max_output_tokens: int = 0
    """The longest answer; 0: what the provider or the catalogue says."""
    temperature: float | None = None
    """None: the provider's own."""
    thinking: Literal["", "low", "medium", "high"] = ""
    """How much a model that can think should; empty: the provider's own."""
    local: LocalSettings = LocalSettings()
    """The model that runs inside this process."""
