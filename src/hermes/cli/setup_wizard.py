"""The questions of `hermes setup`, for somebody who sits at a terminal."""

from collections.abc import Mapping, Sequence

import click
import msgspec

from hermes.cli import exits
from hermes.cli.loading import home
from hermes.cli.output import note, say
from hermes.cli.places import places
from hermes.cli.setup_choice import Choice, keep, tried
from hermes.core.errors import ModelError
from hermes.models.catalogue import catalogue
from hermes.models.reference import resolve
from hermes.settings.load import load
from hermes.settings.secrets import mask

OTHER = "other"


def ask(overrides: Mapping[str, str]) -> int:
    loaded = load(overrides=overrides)
    say("Enter keeps what is in [brackets]; Ctrl-C leaves everything as it was.\n")
    choice = _provider(resolve("", loaded.settings.model).provider.name)
    choice = _model(choice)
    choice = _key(choice)
    choice = msgspec.structs.replace(choice, backend=_backend(choice))
    say()
    for line in keep(home(), choice):
        say(line)
    say("\nDone. `hermes` opens a chat, `hermes doctor` looks whether all is well.")
    return exits.OK


def _provider(now: str) -> Choice:
    known = catalogue().providers
    offers = {name: provider.title or name for name, provider in known.items()}
    offers[OTHER] = "any server that speaks the OpenAI dialect"
    name = _pick("Who serves the model?", offers, now if now in offers else OTHER)
    if name != OTHER:
        return Choice(provider=name)
    url = click.prompt("Address of its API (with the version, as in http://host:8000/v1)")
    name = click.prompt("A name for it", default="own")
    return Choice(provider=name, base_url=url)


def _model(choice: Choice) -> Choice:
    now = load().settings.model.default
    known = catalogue().providers.get(choice.provider)
    offers = list(known.models) if known else []
    before = now.partition(":")[2] if now.startswith(f"{choice.provider}:") else ""
    for name in offers[:12]:
        say(f"  {name}")
    default = before or (offers[0] if offers else None)
    if known and not known.base_url and not offers:
        return choice  # it runs in this process and has one model
    return msgspec.structs.replace(choice, model=click.prompt("Which model?", default=default))


def _key(choice: Choice) -> Choice:
    """A key that works, or the word of the person that it shall be kept all the same."""
    while True:
        choice = msgspec.structs.replace(choice, key=_paste(choice))
        if not click.confirm("Try it with a tiny question?", default=True):
            return choice
        try:
            say(tried(choice))
        except ModelError as error:
            note(str(error))
            if click.confirm("Keep it all the same?", default=False):
                return choice
        else:
            return choice


def _paste(choice: Choice) -> str:
    variable = choice.key_variable()
    if not variable:
        return ""
    kept = choice.loaded().secrets.get(variable, "")
    shown = f" [keep {mask(kept)}]" if kept else ""
    return str(
        click.prompt(f"{variable}{shown}", default="", hide_input=True, show_default=False)
    ).strip()


def _backend(choice: Choice) -> str:
    loaded = choice.loaded()
    ready = {place.name: place.why or "ready" for place in places(loaded)}
    now = loaded.settings.terminal.backend
    chosen = _pick("Where shall commands run?", ready, now)
    return "" if chosen == now else chosen


def _pick(question: str, offers: Mapping[str, str], default: str) -> str:
    names: Sequence[str] = list(offers)
    for number, name in enumerate(names, start=1):
        say(f"  {number:>2}  {name:<14} {offers[name]}")
    while True:
        said = str(click.prompt(question, default=default)).strip()
        if said.isdigit() and 0 < int(said) <= len(names):
            return names[int(said) - 1]
        if said in offers:
            return said
        note(f"{said!r} is not one of them; a number or a name, please")
