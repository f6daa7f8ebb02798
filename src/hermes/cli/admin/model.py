"""`hermes model`: shows, lists, selects and tests language models."""

from typing import get_args

import click
import msgspec

from hermes.cli.context import load_settings
from hermes.cli.lazy import cli_command, cli_group
from hermes.cli.output import echo, note, print_fields, print_json, print_table
from hermes.models.catalog import (
    ModelCard,
    ModelProvider,
    ModelRole,
    ModelTarget,
    model_catalog,
    reference_for_role,
    resolve_reference,
)
from hermes.models.settings import ModelSettings
from hermes.settings.load import LoadedSettings

MODEL_ROLES: tuple[ModelRole, ...] = get_args(ModelRole)
MODEL_COMMANDS = {
    "list": ("admin.model:list_", "Models that are known, with windows and prices"),
    "show": ("admin.model:show", "What is known about one"),
    "set": ("admin.model:set_", "Choose the model of a role"),
    "test": ("admin.model:test", "Ask it one tiny question"),
}


@cli_group(
    MODEL_COMMANDS,
    """
hermes model                                   who answers now
hermes model list --provider anthropic
hermes model set sonnet                        by alias
hermes model set ollama:qwen3 --role cheap     by provider and name
hermes model test
""",
)
def model(ctx: click.Context, as_json: bool) -> None:
    """Show, list, switch or test language models. Without a command: the model of each role.

    REF is `provider:model`, an alias such as `sonnet`, or a model of the default provider.
    """
    if ctx.invoked_subcommand is not None:
        return
    loaded = load_settings(ctx)
    settings = loaded.settings.model
    rows = [
        _model_data(resolve_reference(reference_for_role(role, settings), settings), loaded)
        | {"role": role}
        for role in MODEL_ROLES
    ]
    if as_json:
        print_json(
            {"roles": {row.pop("role"): row for row in rows}, "fallbacks": settings.fallbacks}
        )
        return
    print_table(
        ("role", "model", "window", "price", "key"),
        [
            (row["role"], row["model"], _window_text(row), _price_text(row), row["key"])
            for row in rows
        ],
    )
    if settings.fallbacks:
        echo(f"then: {', '.join(settings.fallbacks)}")


@cli_command("hermes model list --provider openai --json")
@click.option("--provider", help="Only those of one provider.")
def list_(ctx: click.Context, provider: str | None, as_json: bool) -> None:
    """List the models that are known, with windows and prices.

    Others work as well: name them `provider:model`.
    """
    loaded = load_settings(ctx)
    settings = loaded.settings.model
    known = model_catalog().providers
    names = [provider] if provider else [*known, *(set(settings.providers) - set(known))]
    if provider and provider not in known and provider not in settings.providers:
        resolve_reference(f"{provider}:any", settings)  # raises, and says which name is near
    found = [
        f"{name}:{model}" for name in names for model in known.get(name, ModelProvider()).models
    ]
    rows = [_model_data(resolve_reference(reference, settings), loaded) for reference in found]
    if as_json:
        print_json({"models": rows, "aliases": model_catalog().aliases, "providers": sorted(names)})
        return
    print_table(
        ("model", "window", "price", "key"),
        [(row["model"], _window_text(row), _price_text(row), row["key"]) for row in rows],
        empty="the catalogue names none of its models; write provider:model",
    )
    note("price: US dollars for a million tokens, in / out; key: is it set?")


@cli_command("hermes model show sonnet")
@click.argument("reference", metavar="REF", required=False)
def show(ctx: click.Context, reference: str | None, as_json: bool) -> None:
    """Show what is known about REF; without REF, about the default model."""
    loaded = load_settings(ctx)
    target = resolve_reference(reference or "", loaded.settings.model)
    facts = _model_data(target, loaded) | {
        "provider": target.provider.title or target.provider.name,
        "base_url": target.provider.base_url,
        "dialect": target.provider.dialect,
        "key_variable": target.provider.key_variable,
        "max_output": target.card.max_output or None,
    }
    if as_json:
        print_json(facts)
    else:
        print_fields({name: value for name, value in facts.items() if value is not None})


@cli_command("hermes model set haiku --role cheap")
@click.argument("reference", metavar="REF")
@click.option("--role", type=click.Choice(MODEL_ROLES), default="default", show_default=True)
def set_(ctx: click.Context, reference: str, role: str) -> None:
    """Make REF the model of a role, for good."""
    from hermes.settings.edit import set_value

    loaded = load_settings(ctx)
    target = resolve_reference(reference, loaded.settings.model)
    if target.provider.dialect == "moa":
        _check_mixture(target, role, loaded.settings.model)
    file = set_value(loaded.home, f"model.{role}", target.reference)
    echo(f"{role} is now {target.reference} ({file})")
    variable = target.provider.key_variable
    if variable and not loaded.secrets.get(variable):
        note(f"{variable} is not set yet: hermes config set {variable}")


def _check_mixture(target: ModelTarget, role: str, settings: ModelSettings) -> None:
    """Raises `SettingsError` for a mixture that could not answer in this role."""
    from hermes.models.mixture import find_mixture

    if role == "default":
        settings = msgspec.structs.replace(settings, default=target.reference)
    references, aggregator = find_mixture(target.model, settings)
    for each in filter(None, (*references, aggregator)):
        resolve_reference(each, settings)


@cli_command("hermes model test anthropic:claude-sonnet-5.5")
@click.argument("reference", metavar="REF", required=False)
def test(ctx: click.Context, reference: str | None, as_json: bool) -> None:
    """Ask REF (or the default model) one tiny question. Exit code 4 when it does not answer."""
    import anyio

    from hermes.models.open import check_model

    loaded = load_settings(ctx)
    trial = anyio.run(check_model, reference or "", loaded.settings.model, loaded.secrets)
    if as_json:
        print_json(trial)
    else:
        echo(f"{trial.model} answered {trial.answer[:60]!r} in {trial.seconds} s")


def _model_data(target: ModelTarget, loaded: LoadedSettings) -> dict[str, object]:
    card: ModelCard = target.card
    variable = target.provider.key_variable
    return {
        "model": target.reference,
        "window": target.window or None,
        "input_usd": card.price.input if card.price else None,
        "output_usd": card.price.output if card.price else None,
        "key": bool(loaded.secrets.get(variable)) if variable else None,
    }


def _price_text(row: dict[str, object]) -> str | None:
    if row["input_usd"] is None:
        return None
    return f"{row['input_usd']:g} / {row['output_usd']:g}"


def _window_text(row: dict[str, object]) -> str | None:
    return f"{row['window']:,}" if row["window"] else None
