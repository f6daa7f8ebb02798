"""The questions of `hermes setup`, for a person at a terminal.

Each answer is saved when it is given. Provider and model are kept in a file of their own until
the key was tested, so that an interrupted setup neither loses them nor breaks a working model.
"""

from collections.abc import Mapping, Sequence

import click
import msgspec

from hermes.cli import exits
from hermes.cli.loading import home
from hermes.cli.output import note, say
from hermes.cli.places import places
from hermes.cli.setup_choice import Choice, keep, missing_extra, tried
from hermes.core.errors import HermesError
from hermes.models.catalogue import catalogue
from hermes.models.reference import resolve
from hermes.settings.files import locked, read_text, replace_text
from hermes.settings.load import load
from hermes.settings.secrets import mask

OTHER = "other"
ANSWERS_FILE = "setup-answers.json"
ANNOUNCE_S = 30.0


def ask(overrides: Mapping[str, str]) -> int:
    loaded = load(overrides=overrides)
    say("Enter keeps what is in [brackets]. Answers are saved as you give them; after Ctrl-C,")
    say("`hermes setup` continues with them.\n")
    earlier = _earlier_answers()
    if earlier.provider:
        model = f", model {earlier.model}" if earlier.model else ""
        say(f"Continuing: provider {earlier.provider}{model}.\n")
    now = earlier.provider or resolve("", loaded.settings.model).provider.name
    choice = _provider(now, earlier)
    _save_answers(choice)
    choice = _model(choice, earlier)
    _save_answers(choice)
    _keep(_key(choice))
    (home() / ANSWERS_FILE).unlink(missing_ok=True)
    _keep(Choice(backend=_backend()))
    _keep(Choice(announce=_announce()))
    say("\nDone. `hermes watch` looks after this host, `hermes` opens a chat, and `hermes doctor`")
    say("checks the installation.")
    return exits.OK


def _earlier_answers() -> Choice:
    text = read_text(home() / ANSWERS_FILE)
    try:
        return msgspec.json.decode(text, type=Choice) if text else Choice()
    except msgspec.DecodeError:
        return Choice()  # damaged: the questions are asked from the beginning


def _save_answers(choice: Choice) -> None:
    with locked(home()):
        text = msgspec.json.encode(choice).decode()
        replace_text(home() / ANSWERS_FILE, text, mode=0o600)


def _keep(choice: Choice) -> None:
    for line in keep(home(), choice):
        say(line)


def _provider(now: str, earlier: Choice) -> Choice:
    known = catalogue().providers
    missing = {name: missing_extra(name) for name in known}
    offers = {
        name: provider.title + (f" (install it first: {missing[name]})" if missing[name] else "")
        for name, provider in known.items()
    }
    offers[OTHER] = "any server that speaks the OpenAI dialect"
    while True:
        name = _pick("Who serves the model?", offers, now if now in offers else OTHER)
        if not missing.get(name):
            break
        note(f"{name} cannot be used yet. Install it with: {missing[name]}")
        now = catalogue().default
    if name != OTHER:
        return Choice(provider=name)
    own = earlier if earlier.base_url else Choice(provider="own")
    url = click.prompt(
        "Address of its API (with the version, as in http://host:8000/v1)",
        default=own.base_url or None,
    )
    return Choice(provider=click.prompt("A name for it", default=own.provider), base_url=url)


def _model(choice: Choice, earlier: Choice) -> Choice:
    known = catalogue().providers.get(choice.provider)
    offers = list(known.models) if known else []
    if known and not known.base_url and not offers:
        return choice  # it runs in this process and has one model
    kept = [f"{earlier.provider}:{earlier.model}", load().settings.model.default]
    mine = [ref.partition(":")[2] for ref in kept if ref.startswith(f"{choice.provider}:")]
    for name in offers[:12]:
        say(f"  {name}")
    default = next((name for name in [*mine, *offers] if name), None)
    return msgspec.structs.replace(choice, model=click.prompt("Which model?", default=default))


def _key(choice: Choice) -> Choice:
    """A key that was tested, or that the person wants to keep although the test failed."""
    while True:
        choice = msgspec.structs.replace(choice, key=_paste(choice))
        say(f"Testing {choice.reference} with a tiny question …")
        try:
            say(tried(choice))
        except HermesError as error:
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


def _backend() -> str:
    loaded = load()
    ready = {place.name: place.why or "ready" for place in places(loaded)}
    now = loaded.settings.terminal.backend
    chosen = _pick("Where shall commands run?", ready, now)
    return "" if chosen == now else chosen


def _announce() -> str:
    """Whether restarts and other moderate actions proceed without an answer."""
    now = load().settings.policy.announce
    seconds = now or ANNOUNCE_S
    offers = {
        "announce": f"announced, and done after {seconds:g} s unless you stop it",
        "ask": "never done without your answer",
    }
    say("Restarts and other moderate actions are:")
    chosen = _pick("Which?", offers, "announce" if now else "ask")
    wanted = seconds if chosen == "announce" else 0.0
    return "" if wanted == now else f"{wanted:g}"


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
