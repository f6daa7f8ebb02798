"""`hermes policy check`: the verdict on one command, or on a stream of them."""

import json
import sys
from collections.abc import Iterable, Iterator
from typing import IO, Any

import click
import msgspec

from hermes.cli import exit_codes
from hermes.cli.context import load_settings
from hermes.cli.lazy import cli_command
from hermes.cli.output import print_fields
from hermes.cli.policy.context import (
    ActionOptions,
    CommandTakingCommand,
    FolderPolicy,
    action_options,
    working_folder,
)
from hermes.cli.render.terminal_text import escape_invisible
from hermes.core.errors import HermesError

_EXPECTED_REQUEST = 'expected an object such as {"command": "ls -la"}'


@cli_command(
    """
hermes policy check -- rm -rf /srv/data
hermes policy check --origin cron --environment prod -- systemctl restart nginx
hermes policy check --set observe --exit-code -- touch x || echo held
hermes policy check --tool write_file --arguments '{"path": "/etc/hosts"}'
hermes policy check --tool prometheus_query --json '{"query": "up"}'
echo '{"command": "ls", "cwd": "/srv"}' | hermes policy check --jsonl -
""",
    cls=CommandTakingCommand,
)
@action_options
@click.option(
    "--jsonl",
    "lines",
    type=click.File("rb"),
    help="Read one JSON object per line (- is stdin); print one answer per line, in order.",
)
@click.option("--exit-code", is_flag=True, help="7 when held (ask, deny, dry-run), 1 for bad JSON.")
def check(
    ctx: click.Context,
    action: ActionOptions,
    lines: IO[bytes] | None,
    exit_code: bool,
    as_json: bool,
) -> int:
    """Show the decision of the policy about COMMAND, without running it.

    One word is shell text (quote it: 'a | b'); several are the words of one command.

    A line of --jsonl has `command`, and may have `cwd`, `tool`, `arguments`, `origin`, `target`,
    `isolated`, `tainted`, `tested`, `now` and an `id` that is returned; the options give the
    defaults. The answer has `verdict` (allow, ask, deny, dry-run), `rule` and `effects`; for an
    invalid line it has `error`, and the next line follows.

    Exit code 0, whatever the verdict, unless --exit-code is given.
    """
    if lines is None and not action.words and not action.tool:
        raise click.UsageError("a command is missing: hermes policy check -- ls -la")
    folder_policy = FolderPolicy(load_settings(ctx, action.overrides), working_folder(action.cwd))
    request = action.as_request()
    if lines is not None:
        answers: Iterable[dict[str, Any]] = check_lines(folder_policy, lines, request)
    else:
        answers = [folder_policy.check(request)]
    worst = exit_codes.OK
    for answer in answers:
        _print_answer(answer, as_json=as_json, streaming=lines is not None)
        worst = _worse_exit_code(worst, answer)
    return worst if exit_code else exit_codes.OK


def check_lines(
    policy: FolderPolicy, lines: Iterable[bytes], defaults: dict[str, Any]
) -> Iterator[dict[str, Any]]:
    policy.of(False)  # report a broken policy file once, not for each line
    for line in lines:
        try:
            # Invalid UTF-8 is passed on: the policy decides about it.
            data = json.loads(line.decode("utf-8", "surrogateescape"))
        except (ValueError, RecursionError) as error:
            yield {"error": f"not JSON: {error}"}
            continue
        if not isinstance(data, dict):
            yield {"error": _EXPECTED_REQUEST}
            continue
        echoed = {"id": data.pop("id")} if "id" in data else {}
        try:
            yield {**echoed, **_check_request(policy, {**defaults, **data})}
        except (
            HermesError,
            ValueError,
            msgspec.MsgspecError,
        ) as error:  # invalid characters or values
            yield {**echoed, "error": str(error)}


def _check_request(policy: FolderPolicy, request: dict[str, Any]) -> dict[str, Any]:
    answer = policy.check(request)
    if not {"command", "tool"} & request.keys():
        raise HermesError(_EXPECTED_REQUEST)
    return answer


def _worse_exit_code(worst: int, answer: dict[str, Any]) -> int:
    if "error" in answer or worst == exit_codes.FAILED:
        return exit_codes.FAILED
    return worst if answer["verdict"] == "allow" else exit_codes.DENIED


def _print_answer(answer: dict[str, Any], *, as_json: bool, streaming: bool) -> None:
    if streaming or as_json:
        # ASCII: a command may contain half a surrogate pair, which is not valid UTF-8.
        sys.stdout.write(json.dumps(answer, indent=None if streaming else 2) + "\n")
        sys.stdout.flush()
        return
    shown = {
        "verdict": answer["verdict"],
        "rule": answer["rule"],
        "effects": answer["effects"],
        "because of": escape_invisible(answer["node"]),
        "reason": escape_invisible(answer["reason"]),
    }
    if answer["announce"]:
        shown["then"] = f"runs after {answer['announce']:g} s unless someone stops it"
    print_fields(shown)
