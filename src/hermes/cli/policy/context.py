"""Options, policies and documents shared by the `hermes policy` commands."""

import shlex
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from functools import cache, partial, wraps
from pathlib import Path
from typing import Any, get_args

import click
import msgspec

from hermes.app.policy import (
    describe_call,
    effective_policy_settings,
    home_path,
    kernel_support_here,
    open_policy,
)
from hermes.cli.lazy import CommandWithExamples
from hermes.core.actions import Action
from hermes.core.errors import SettingsError
from hermes.core.events.base import RunOrigin
from hermes.core.messages import Value
from hermes.policy.actions.reader import ActionContext, ActionReader
from hermes.policy.command_analysis import analyse_command
from hermes.policy.decide import DocumentPolicy
from hermes.policy.examination import check_action
from hermes.policy.loading import (
    BUILT_IN_SETS_FOLDER,
    clock_in_timezone,
    compile_rule_set,
    describe_problems,
    load_policies,
    protected_paths,
)
from hermes.policy.rules.documents import (
    LoadedDocuments,
    LocatedDocument,
    check_documents_together,
    load_file,
    load_folder,
)
from hermes.policy.rules.evaluation import RateCounter
from hermes.policy.rules.schema import PolicyTest
from hermes.policy.settings import PolicySettings
from hermes.settings.load import LoadedSettings

POLICY_SET_NAMES: tuple[str, ...] = get_args(
    next(f.type for f in msgspec.structs.fields(PolicySettings) if f.name == "set")
)
_TARGET_KEYS = ("host", "service", "namespace", "environment", "place")


class ActionOptions(Value, kw_only=True, frozen=True):
    """The action described on the command line."""

    words: tuple[str, ...] = ()
    cwd: str = ""
    tool: str = ""
    arguments: str = ""
    origin: str = "cli"
    target: tuple[str, ...] = ()
    environment: str = ""
    isolated: bool = False
    tainted: bool = False
    tested: bool = False
    set_name: str | None = None

    @property
    def overrides(self) -> dict[str, str]:
        return {"policy.set": self.set_name} if self.set_name else {}

    def as_request(self) -> dict[str, Any]:
        """Return it as a JSON request. One word is shell text, several words are one command."""
        command = self.words[0] if len(self.words) == 1 else shlex.join(self.words)
        arguments = self.arguments
        if self.tool and not arguments and command.lstrip().startswith("{"):
            command, arguments = "", command  # `--tool NAME --json '{...}'`
        target = _parse_target(self.target) | (
            {"environment": self.environment} if self.environment else {}
        )
        environment = target.pop("place", "")
        request = {
            "command": command,
            "tool": self.tool,
            "arguments": _parse_arguments(arguments),
            "origin": self.origin,
            "environment": environment,
            "target": target,
            "isolated": self.isolated,
            "tainted": self.tainted,
            "tested": self.tested,
        }
        return {key: value for key, value in request.items() if value}


class CommandTakingCommand(CommandWithExamples):
    """A command whose last arguments are another command."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        bare = "--" not in args
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if not bare:
                raise
            hint = f"put -- before the command: {ctx.command_path} -- rm -rf x"
            raise click.UsageError(
                f"{error.format_message()} If it belongs to the command, {hint}"
            ) from error


def action_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator: passes the options below to a command as one `ActionOptions`."""
    names = ActionOptions.__struct_fields__

    @wraps(function)
    def command_with_options(*arguments: Any, **options: Any) -> Any:
        described = ActionOptions(**{name: options.pop(name) for name in names})
        return function(*arguments, action=described, **options)

    command: Callable[..., Any] = command_with_options
    for option in reversed(_ACTION_OPTIONS):
        command = option(command)
    return command


_ACTION_OPTIONS = (
    click.argument("words", nargs=-1, metavar="[--] COMMAND..."),
    click.option("--cwd", default="", help="The working folder; default: this one."),
    click.option("--tool", default="", help="The tool; default: terminal."),
    click.option("--arguments", default="", metavar="JSON", help="The arguments of the tool."),
    click.option(
        "--origin", default="cli", type=click.Choice(get_args(RunOrigin)), show_default=True
    ),
    click.option(
        "--target",
        multiple=True,
        metavar="HOST",
        help="The target: a host, or KEY=VALUE with host, service, namespace, place.",
    ),
    click.option("--environment", default="", help="The environment of the target, such as prod."),
    click.option("--isolated", is_flag=True, help="In an isolated environment."),
    click.option("--tainted", is_flag=True, help="It contains text from a log or a web page."),
    click.option("--tested", is_flag=True, help="Its fix was tested on a copy of the host."),
    click.option(
        "--set", "set_name", type=click.Choice(POLICY_SET_NAMES), default=None, help="Built-in set."
    ),
)


def _parse_target(given: tuple[str, ...]) -> dict[str, str]:
    target = {}
    for text in given:
        key, equals, value = text.partition("=")
        if not equals:
            key, value = "host", text
        if key not in _TARGET_KEYS:
            raise click.UsageError(f"--target {text}: the key is one of {', '.join(_TARGET_KEYS)}")
        target[key] = value
    return target


def _parse_arguments(text: str) -> dict[str, Any]:
    if not text:
        return {}
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeError) as error:
        raise click.UsageError(f"--arguments must be a JSON object: {error}") from error


TEST_HOME, TEST_FOLDER = Path("/home/me"), Path("/srv/app")
"""The home and working folder of PolicyTest cases, on every machine."""


class FolderPolicy:
    """The policy of an agent that is started in a folder."""

    def __init__(self, loaded: LoadedSettings, folder: Path) -> None:
        self._loaded = loaded
        self.folder = folder
        self.home = home_path(loaded)
        self.of = cache(lambda isolated: open_policy(loaded, folder, isolated=isolated))
        self.kernel = cache(lambda environment: kernel_support_here(loaded, environment))

    def check(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the decision. Raises `SettingsError` for an invalid request."""
        policy = self.of(request.get("isolated") is True)
        kernel = self.kernel(str(request.get("environment", "")))
        request = self.resolve_folder(request)
        return check_action(
            policy,
            request,
            cwd=str(self.folder),
            home=self.home,
            kernel=kernel,
            describe=partial(describe_call, self._loaded),
        )

    def resolve_folder(self, request: dict[str, Any]) -> dict[str, Any]:
        """Make a relative `cwd` absolute."""
        cwd = request.get("cwd")
        if not isinstance(cwd, str) or not cwd or cwd.startswith("/"):
            return request
        if cwd == "~" or cwd.startswith("~/"):
            return {**request, "cwd": self.home + cwd[1:]}
        return {**request, "cwd": str(self.folder / cwd)}


def working_folder(cwd: str) -> Path:
    try:
        return Path(cwd).expanduser().absolute()
    except (FileNotFoundError, RuntimeError) as error:  # the folder was removed, or HOME is not set
        raise SettingsError(f"cannot find the folder {cwd or '.'}: {error}") from error


def documents_in_force(
    loaded: LoadedSettings, folder: Path, *, isolated: bool = False
) -> LoadedDocuments:
    """Return every active document. Raises `SettingsError` when one is broken."""
    return require_valid(
        load_policies(effective_policy_settings(loaded, isolated=isolated), loaded.home, folder)
    )


def require_valid(found: LoadedDocuments) -> LoadedDocuments:
    if fatal := [problem for problem in found.problems if problem.fatal]:
        raise SettingsError(describe_problems(fatal))
    return found


def load_policy_files(paths: Iterable[Path]) -> LoadedDocuments:
    found = LoadedDocuments()
    for path in paths:
        found += load_folder(path) if path.is_dir() else load_file(path)
    return found


def overlay_documents(
    present: Sequence[LocatedDocument], candidates: LoadedDocuments
) -> tuple[LocatedDocument, ...]:
    """Add candidate documents; they replace own documents with the same name."""
    require_valid(candidates)
    names = {document_name(located) for located in candidates.documents}
    kept = [
        each for each in present if is_built_in(each.source) or document_name(each) not in names
    ]
    combined = (*kept, *candidates.documents)
    require_valid(LoadedDocuments(problems=tuple(check_documents_together(combined))))
    return combined


def document_name(located: LocatedDocument) -> tuple[str, str]:
    return located.document.kind, located.document.metadata.name


class PolicyReplayClock:
    """A clock that is set to the time of each recorded action."""

    def __init__(self, timezone: str) -> None:
        self.now = clock_in_timezone(timezone)()

    def set(self, at: datetime) -> None:
        self.now = at.astimezone(self.now.tzinfo)


class PolicyReplayContext(Value, frozen=True):
    """The folder, the clock and the tainted calls of recorded actions."""

    folder: Path
    clock: PolicyReplayClock
    tainted: frozenset[tuple[str, str]] = frozenset()
    """Run and call id of calls that contain untrusted text."""


def build_replay_policy(
    documents: Iterable[LocatedDocument],
    settings: PolicySettings,
    loaded: LoadedSettings,
    replay: PolicyReplayContext,
) -> DocumentPolicy:
    """Build a policy that uses the recorded time and reads no files."""
    home, folder = home_path(loaded), str(replay.folder)
    own = protected_paths(loaded.home, replay.folder, [loaded.journal])

    def context_for(action: Action) -> ActionContext:
        tainted = (action.run, action.call.id) in replay.tainted
        cwd = action.cwd or folder
        return ActionContext(cwd=cwd, home=home, command=action.command, tainted=tainted)

    return DocumentPolicy(
        compile_rule_set(documents, settings, home),
        ActionReader(analyse_command, own_paths=own),
        context_of=context_for,
        clock=lambda: replay.clock.now,
        rates=RateCounter(lambda: replay.clock.now.timestamp()),
    )


def build_test_policy(
    documents: Iterable[LocatedDocument], settings: PolicySettings
) -> DocumentPolicy:
    own = protected_paths(TEST_HOME / ".hermes", TEST_FOLDER)
    rules = (located for located in documents if not isinstance(located.document, PolicyTest))
    return DocumentPolicy(
        compile_rule_set(rules, settings, str(TEST_HOME)),
        ActionReader(analyse_command, own_paths=own),
        clock=clock_in_timezone(settings.timezone),
    )


def is_built_in(source: str) -> bool:
    return source.startswith(f"{BUILT_IN_SETS_FOLDER}/")


def short_source(source: str) -> str:
    """The source as shown to users: a built-in file without its folder."""
    return (
        f"built-in {source.removeprefix(f'{BUILT_IN_SETS_FOLDER}/')}"
        if is_built_in(source)
        else source
    )
