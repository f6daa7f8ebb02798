"""`hermes setup`: asks for the model, the environment, the approvals and a chat, or takes options.

Each answer is saved at once. Provider and model are kept in a separate file until the key is
tested, so that an interrupted setup neither loses them nor breaks a working configuration.
"""

import sys
from collections.abc import Mapping, Sequence

import click
import msgspec

from hermes.cli import exit_codes
from hermes.cli.admin.environments import list_environments
from hermes.cli.admin.setup_choices import SetupChoice, missing_extra, save_choice, try_choice
from hermes.cli.context import command_line_overrides, home_folder
from hermes.cli.lazy import cli_command
from hermes.cli.output import echo, note
from hermes.core.errors import HermesError
from hermes.models.catalog import model_catalog, resolve_reference
from hermes.settings.files import lock_settings, read_text, replace_text
from hermes.settings.load import load
from hermes.settings.secrets import mask_secret

OTHER_PROVIDER = "other"
ANSWERS_FILE = "setup-answers.json"
DEFAULT_ANNOUNCE_S = 30.0
NO_CHANNEL = "none"
MODE_OFFERS = {
    "observe": "look only, and report what it would do",
    "suggest": "every change waits for your answer",
    "act": "what the rules call safe runs; restarts are announced; the rest waits",
}


class ChannelChoice(msgspec.Struct, frozen=True, kw_only=True):
    """The options about a chat; an empty one leaves the setting unchanged."""

    channel: str
    chat: str = ""
    person: str = ""
    person_id: str = ""


def run_wizard(overrides: Mapping[str, str]) -> int:
    loaded = load(overrides=overrides)
    echo("Enter keeps what is in [brackets]. Answers are saved as you give them; after Ctrl-C,")
    echo("`hermes setup` continues with them.\n")
    earlier = _read_saved_answers()
    if earlier.provider:
        model = f", model {earlier.model}" if earlier.model else ""
        echo(f"Continuing: provider {earlier.provider}{model}.\n")
    current = earlier.provider or resolve_reference("", loaded.settings.model).provider.name
    choice = _ask_provider(current, earlier)
    _save_answers(choice)
    choice = _ask_model(choice, earlier)
    _save_answers(choice)
    _save_and_print(_ask_key(choice))
    (home_folder() / ANSWERS_FILE).unlink(missing_ok=True)
    _save_and_print(SetupChoice(backend=_ask_backend()))
    mode = _ask_mode()
    _save_and_print(SetupChoice(mode=mode))
    if mode == "act":
        _save_and_print(SetupChoice(announce=_ask_announce()))
    _ask_channel()
    echo("\nDone. `hermes watch` monitors this host, `hermes service install` keeps it running,")
    echo("`hermes` opens a chat, and `hermes doctor` checks the installation.")
    return exit_codes.OK


def _read_saved_answers() -> SetupChoice:
    text = read_text(home_folder() / ANSWERS_FILE)
    try:
        return msgspec.json.decode(text, type=SetupChoice) if text else SetupChoice()
    except msgspec.DecodeError:
        return SetupChoice()  # damaged: the questions are asked from the beginning


def _save_answers(choice: SetupChoice) -> None:
    with lock_settings(home_folder()):
        text = msgspec.json.encode(choice).decode()
        replace_text(home_folder() / ANSWERS_FILE, text, private=True)


def _save_and_print(choice: SetupChoice) -> None:
    for line in save_choice(home_folder(), choice):
        echo(line)


def _ask_provider(current: str, earlier: SetupChoice) -> SetupChoice:
    known = model_catalog().providers
    missing = {name: missing_extra(name) for name in known}
    offers = {
        name: provider.title + (f" (install it first: {missing[name]})" if missing[name] else "")
        for name, provider in known.items()
    }
    offers[OTHER_PROVIDER] = "any server that speaks the OpenAI dialect"
    while True:
        name = _ask_option(
            "Who serves the model?", offers, current if current in offers else OTHER_PROVIDER
        )
        if not missing.get(name):
            break
        note(f"{name} cannot be used yet. Install it with: {missing[name]}")
        current = model_catalog().default
    if name != OTHER_PROVIDER:
        return SetupChoice(provider=name)
    own = earlier if earlier.base_url else SetupChoice(provider="own")
    url = click.prompt(
        "Address of its API (with the version, as in http://host:8000/v1)",
        default=own.base_url or None,
    )
    return SetupChoice(provider=click.prompt("A name for it", default=own.provider), base_url=url)


def _ask_model(choice: SetupChoice, earlier: SetupChoice) -> SetupChoice:
    known = model_catalog().providers.get(choice.provider)
    offers = list(known.models) if known else []
    if known and not known.base_url and not offers:
        return choice  # it runs in this process and has one model
    known_references = [f"{earlier.provider}:{earlier.model}", load().settings.model.default]
    prefix = f"{choice.provider}:"
    own_models = [ref.removeprefix(prefix) for ref in known_references if ref.startswith(prefix)]
    for name in offers[:12]:
        echo(f"  {name}")
    default = next((name for name in [*own_models, *offers] if name), None)
    return msgspec.structs.replace(choice, model=click.prompt("Which model?", default=default))


def _ask_key(choice: SetupChoice) -> SetupChoice:
    """Ask for a key until its test passes, or until the user keeps it anyway."""
    while True:
        choice = msgspec.structs.replace(choice, key=_prompt_for_key(choice))
        echo(f"Testing {choice.reference} with a tiny question …")
        try:
            echo(try_choice(choice))
        except HermesError as error:
            note(str(error))
            if click.confirm("Keep it anyway?", default=False):
                return choice
        else:
            return choice


def _prompt_for_key(choice: SetupChoice) -> str:
    variable = choice.key_variable()
    if not variable:
        return ""
    current = choice.loaded().secrets.get(variable, "")
    shown = f" [keep {mask_secret(current)}]" if current else ""
    return str(
        click.prompt(f"{variable}{shown}", default="", hide_input=True, show_default=False)
    ).strip()


def _ask_backend() -> str:
    loaded = load()
    offers = {each.name: each.why or "ready" for each in list_environments(loaded)}
    current = loaded.settings.terminal.backend
    chosen = _ask_option("Where shall commands run?", offers, current)
    return "" if chosen == current else chosen


def _ask_mode() -> str:
    loaded = load()
    chosen: str = loaded.settings.watch.mode
    if loaded.origin("watch.mode").source == "default" and loaded.settings.policy.set in (
        "observe",
        "suggest",
    ):
        chosen = loaded.settings.policy.set
    echo("What may the watch do by itself?")
    return _ask_option("Which mode?", MODE_OFFERS, chosen)


def _ask_announce() -> str:
    """Ask whether restarts and other moderate actions proceed without an answer."""
    current = load().settings.policy.announce
    seconds = current or DEFAULT_ANNOUNCE_S
    offers = {
        "announce": f"announced, and run after {seconds:g} s unless you stop them",
        "ask": "never run without your answer",
    }
    echo("Restarts and other moderate actions are:")
    chosen = _ask_option("Which?", offers, "announce" if current else "ask")
    wanted = seconds if chosen == "announce" else 0.0
    return "" if wanted == current else f"{wanted:g}"


def _ask_channel() -> None:
    """Lead through one chat channel: what to do there, secrets, home chat, test, person."""
    from hermes.app.channels.setup import channel_titles, find_manifest, save_channel

    echo("\nIn which chat shall Hermes report incidents and take answers?")
    name = _ask_option("Which chat?", {NO_CHANNEL: "none for now", **channel_titles()}, NO_CHANNEL)
    if name == NO_CHANNEL:
        return
    manifest, loaded = find_manifest(name), load()
    for number, line in enumerate(manifest.setup, start=1):
        echo(f"  {number}. {line}")
    given = {}
    for variable in manifest.settings.secret_names:
        current = loaded.secrets.get(variable, "")
        shown = f" [keep {mask_secret(current)}]" if current else ""
        given[variable] = str(
            click.prompt(f"{variable}{shown}", default="", hide_input=True, show_default=False)
        ).strip()
    section = getattr(loaded.settings.channels, name)
    for key in manifest.settings.needed_keys:
        given[key] = str(click.prompt(key, default=str(getattr(section, key)))).strip()
    chat = str(click.prompt("Id of the chat for notifications", default=section.home_chat)).strip()
    for line in save_channel(home_folder(), manifest, given, chat):
        echo(line)
    if _test_channel(name):
        _ask_person(name)


def _test_channel(name: str) -> bool:
    """Return whether a test message was accepted."""
    import anyio

    from hermes.app.channels.delivery_test import send_test_message
    from hermes.core.channels import Address

    echo("Sending a test message …")
    try:
        result = anyio.run(send_test_message, load(), Address(name))
    except HermesError as error:
        note(f"{error}; later: hermes channels test {name}")
        return False
    echo(f"{name} accepted it in {result.to.chat}; `hermes up` watches and answers there")
    return True


def _ask_person(channel: str) -> None:
    """Who presses the button of a test approval is the person at this terminal."""
    import anyio

    from hermes.app.channels.setup import name_person, wait_for_press
    from hermes.app.people import user_name
    from hermes.core.channels import Address

    id = ""
    if click.confirm("Send a test approval, and wait until you press its button?", default=True):
        try:
            pressed = anyio.run(wait_for_press, load(), Address(channel))
        except HermesError as error:
            note(str(error))
        else:
            id = pressed.sender if pressed is not None else ""
            shown = f"{pressed.sender_name or 'somebody'} ({id})" if pressed is not None else ""
            echo(f"Pressed by {shown}." if pressed is not None else "Nobody pressed it.")
    question = (
        f"Your id there (empty: let yourself in later with `hermes pairing approve {channel}`)"
    )
    id = str(click.prompt(question, default=id)).strip()
    if not id:
        return
    name = str(click.prompt("Your name in Hermes", default=user_name())).strip()
    try:
        event = anyio.run(name_person, load(), name, channel, id)
    except HermesError as error:
        note(str(error))
    else:
        echo(f"{event.name} is {', '.join(':'.join(each) for each in event.ids)}")


def _set_up_channel(choice: ChannelChoice, token: str, *, test: bool) -> None:
    """Without questions. Raises `HermesError`."""
    import anyio

    from hermes.app.channels.setup import find_manifest, name_person, save_channel
    from hermes.app.people import user_name

    manifest = find_manifest(choice.channel, home_folder())
    lines = [line.strip() for line in token.splitlines() if line.strip()]
    given = dict(zip(manifest.settings.secret_names, lines, strict=False))
    for line in save_channel(home_folder(), manifest, given, choice.chat):
        echo(line)
    if choice.person_id:
        name = choice.person or user_name()
        event = anyio.run(name_person, load(), name, choice.channel, choice.person_id)
        echo(f"{event.name} is {', '.join(':'.join(each) for each in event.ids)}")
    if test and not _test_channel(choice.channel):
        raise HermesError(f"{choice.channel} is saved, and does not work yet")


def _ask_option(question: str, offers: Mapping[str, str], default: str) -> str:
    names: Sequence[str] = list(offers)
    for number, name in enumerate(names, start=1):
        echo(f"  {number:>2}  {name:<14} {offers[name]}")
    while True:
        answer = str(click.prompt(question, default=default)).strip()
        if answer.isdigit() and 0 < int(answer) <= len(names):
            return names[int(answer) - 1]
        if answer in offers:
            return answer
        note(f"{answer!r} is not one of them; enter a number or a name")


@cli_command("""
hermes setup                                                asks everything
pass show openrouter | hermes setup --provider openrouter --key-stdin
hermes setup --provider ollama --model qwen3 --no-test      asks nothing
hermes setup --mode observe                                 the watch changes nothing
hermes setup --announce 0                                   restarts always wait for an answer
echo "$TOKEN" | hermes setup --channel telegram --token-stdin --chat -100123
hermes setup --provider box --base-url http://127.0.0.1:8000/v1 --model my-model
""")
@click.option("--provider", default="", help="Who serves the model; see `hermes model list`.")
@click.option(
    "--base-url", default="", metavar="URL", help="The base URL of its API, if not known."
)
@click.option("--key-stdin", is_flag=True, help="Read the key from stdin.")
@click.option("--model", default="", metavar="NAME", help="The model, as the provider calls it.")
@click.option("--backend", default="", help="The environment: local, sandbox, docker, ssh…")
@click.option(
    "--mode",
    default="",
    type=click.Choice(["", *MODE_OFFERS]),
    metavar="MODE",
    help="What the watch may do: observe, suggest or act.",
)
@click.option(
    "--announce",
    default="",
    metavar="SECONDS",
    help="How long a restart is announced before it proceeds without an answer; 0 always asks.",
)
@click.option("--channel", default="", metavar="NAME", help="A chat: telegram, slack, discord…")
@click.option("--token-stdin", is_flag=True, help="Read the token of the chat, a line for each.")
@click.option("--chat", default="", metavar="ID", help="The chat for notifications.")
@click.option("--person-id", default="", metavar="ID", help="Your id on the platform of the chat.")
@click.option("--person", default="", metavar="NAME", help="Your name in Hermes.")
@click.option("--no-test", is_flag=True, help="Keep the key or the chat without testing it.")
def setup(
    ctx: click.Context,
    /,
    key_stdin: bool,
    no_test: bool,
    token_stdin: bool,
    channel: str,
    chat: str,
    person: str,
    person_id: str,
    **given: str,
) -> int:
    """Choose the model, where commands run, what the watch may do by itself, and a chat.

    Existing settings are kept unless changed. The key is tested with a tiny question, and saved in
    .env (mode 0600). Without a network it is saved untested. A chat gets a test message.
    """
    if channel:
        if key_stdin or any(given.values()):
            raise click.UsageError("set up a chat and a model one after the other")
        token = sys.stdin.read() if token_stdin else ""
        answers = ChannelChoice(channel=channel, chat=chat, person=person, person_id=person_id)
        _set_up_channel(answers, token, test=not no_test)
        return exit_codes.OK
    if token_stdin or chat or person or person_id:
        raise click.UsageError("name the chat: --channel telegram")
    choice = SetupChoice(key=sys.stdin.read().strip() if key_stdin else "", **given)
    if choice == SetupChoice() and not no_test:
        if not sys.stdin.isatty():
            raise click.UsageError("no terminal to ask; use --provider, --model, …")
        return run_wizard(command_line_overrides(ctx))
    choice = choice.complete()
    if choice.reference and not no_test:
        echo(try_choice(choice))
    for line in save_choice(home_folder(), choice):
        echo(line)
    if choice.lacks_key():
        note(f"{choice.key_variable()} is not set yet: hermes config set {choice.key_variable()}")
    return exit_codes.OK
