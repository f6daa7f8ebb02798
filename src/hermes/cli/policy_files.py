"""`hermes policy test` and `lint`: policy files tried out before they count."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import click
from msgspec.structs import replace

from hermes.cli import exits
from hermes.cli.lazy import Examples
from hermes.cli.loading import settings_for
from hermes.cli.output import emit_json, json_option, note, say
from hermes.cli.policy_gate import (
    TEST_FOLDER,
    TEST_HOME,
    folder_of,
    in_force,
    load_paths,
    made_for_tests,
    own_folder,
    put_on_top,
    short,
    sound,
)
from hermes.cli.render_safe import clean, visible
from hermes.core.errors import HermesError, SettingsError
from hermes.policy.decide import DocumentPolicy
from hermes.policy.documents import Loaded as Documents
from hermes.policy.documents import Placed, Problem, load_file
from hermes.policy.examine import CaseResult, run_tests
from hermes.policy.lint import lint as look_over
from hermes.policy.opening import SETS, gather, load_set
from hermes.policy.schema import PolicyTest
from hermes.settings.load import Loaded

PROMISES = Path(__file__).with_name("policy_promises.yaml")
"""PolicyTests of the built-in sets that every installation can run."""
FILES = click.argument("files", nargs=-1, metavar="[FILES]...", type=click.Path(path_type=Path))


@click.command(
    cls=Examples,
    examples="""
hermes policy test                       your tests, and those of the built-in sets
hermes policy test new-rule.yaml         a rule and its tests, before it counts
""",
)
@FILES
@json_option
@click.pass_context
def test(ctx: click.Context, files: tuple[Path, ...], as_json: bool) -> int:
    """Run every PolicyTest in FILES (or folders); without FILES your own and the built-in ones.

    Rules in FILES count on top of yours, and in place of own ones with the same name. Cases happen
    in /srv/app with the home folder /home/me, unless they say otherwise. Exit code 1 when one
    fails, 3 when a file is broken.
    """
    loaded = settings_for(ctx)
    present = in_force(loaded, folder_of(""))
    tried = load_paths(files) if files else Documents()
    documents = put_on_top(present.documents, tried)
    tests = (
        tried.documents if files else (*present.documents, *sound(load_file(PROMISES)).documents)
    )
    if not any(isinstance(placed.document, PolicyTest) for placed in tests):
        raise HermesError(f"there is no PolicyTest in {', '.join(map(str, files))}")
    results = run_tests(
        tests, _policies(documents, loaded), cwd=str(TEST_FOLDER), home=str(TEST_HOME)
    )
    failed = [result for result in results if not result.ok]
    if as_json:
        emit_json({"cases": len(results), "failed": len(failed), "results": _plain(results)})
    else:
        _tell(results, failed)
    return exits.FAILED if failed else exits.OK


def _policies(documents: tuple[Placed, ...], loaded: Loaded) -> Callable[[str], DocumentPolicy]:
    settings = loaded.settings.policy

    @cache
    def policy_of(name: str) -> DocumentPolicy:
        if name and not (SETS / f"{name}.yaml").is_file():
            known = ", ".join(sorted(file.stem for file in SETS.glob("*.yaml")))
            raise SettingsError(f"a PolicyTest is for the set {name!r}; there are: {known}")
        chosen = sound(load_set(name)).documents if name else documents
        return made_for_tests(chosen, replace(settings, set=name) if name else settings)

    return policy_of


def _tell(results: list[CaseResult], failed: list[CaseResult]) -> None:
    for one in failed:
        say(
            f"{clean(short(one.source))}: {one.test} case {one.case}: {visible(one.shown)}",
            fg="red",
        )
        say(f"  {visible(one.problem)}")
    tests = len({(one.source, one.test) for one in results})
    counted = f"{_many(len(results), 'case')} of {_many(tests, 'test')}"
    say(f"{counted}: {len(failed)} failed" if failed else f"{counted}: all as expected")


def _many(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _plain(results: list[CaseResult]) -> list[dict[str, object]]:
    return [{name: getattr(one, name) for name in one.__struct_fields__} for one in results]


@click.command(
    cls=Examples,
    examples="""
hermes policy lint                       your files, and those of this project
hermes policy lint new-rule.yaml policies/
""",
)
@FILES
@json_option
@click.pass_context
def lint(ctx: click.Context, files: tuple[Path, ...], as_json: bool) -> int:
    """Find mistakes in FILES (or folders), and what is valid but hardly meant: file:line: cause.

    Without FILES: your policy folder and `.hermes/policies` of this one. A mistake keeps the agent
    from starting; a `doubt` does not. Exit code 1 when there is anything to mend.
    """
    loaded = settings_for(ctx)
    problems = _problems(loaded, folder_of(""), files)
    if as_json:
        emit_json([_problem(each) for each in problems])
    elif not problems:
        note("nothing to mend")
    else:
        for each in problems:
            kind = "" if each.fatal else "doubt: "
            say(clean(f"{each.file}:{each.line}: {kind}{each.cause}"))
    return exits.FAILED if problems else exits.OK


def _problems(loaded: Loaded, folder: Path, files: tuple[Path, ...]) -> list[Problem]:
    settings = loaded.settings.policy
    present = gather(settings, loaded.home, folder)
    if not files:
        own = [own_folder(loaded), folder / ".hermes" / "policies"]
        paths = [path for path in own if path.is_dir()]
        known = load_set(settings.set).documents
        return list(dict.fromkeys([*present.problems, *look_over(paths, known)]))
    theirs = {str(each.resolve()) for path in files for each in (path, *path.rglob("*.y*ml"))}
    known = tuple(one for one in present.documents if str(Path(one.file).resolve()) not in theirs)
    return list(dict.fromkeys(look_over(files, known)))


def _problem(each: Problem) -> dict[str, object]:
    return {"file": each.file, "line": each.line, "cause": each.cause, "fatal": each.fatal}
