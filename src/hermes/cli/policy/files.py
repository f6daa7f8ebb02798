"""`hermes policy test` and `lint`: check policy files before they are used."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import click
from msgspec.structs import asdict, replace

from hermes.app.policy import always_rules_path
from hermes.cli import exit_codes
from hermes.cli.context import load_settings
from hermes.cli.lazy import cli_command
from hermes.cli.output import echo, note, print_json
from hermes.cli.policy.context import (
    TEST_FOLDER,
    TEST_HOME,
    build_test_policy,
    documents_in_force,
    load_policy_files,
    overlay_documents,
    require_valid,
    short_source,
    working_folder,
)
from hermes.cli.render.terminal_text import clean, escape_invisible
from hermes.core.errors import HermesError, SettingsError
from hermes.plumbing.problems import Problem
from hermes.policy.decide import DocumentPolicy
from hermes.policy.examination import PolicyTestResult, run_tests
from hermes.policy.loading import BUILT_IN_SETS_FOLDER, lint_files, load_policies, load_set
from hermes.policy.rules.documents import LoadedDocuments, LocatedDocument, load_file
from hermes.policy.rules.schema import PolicyTest
from hermes.settings.load import LoadedSettings

BUILT_IN_TESTS_FILE = Path(__file__).with_name("built_in_tests.yaml")
"""PolicyTests of the built-in sets that every installation can run."""
files_argument = click.argument(
    "files", nargs=-1, metavar="[FILES]...", type=click.Path(path_type=Path)
)


@cli_command("""
hermes policy test                       your tests, and those of the built-in sets
hermes policy test new-rule.yaml         a new rule and its tests
""")
@files_argument
def test(ctx: click.Context, files: tuple[Path, ...], as_json: bool) -> int:
    """Run every PolicyTest in FILES (or folders); without FILES your own and the built-in ones.

    Rules in FILES are added to yours, and replace own rules with the same name. Cases run in
    /srv/app with the home folder /home/me, unless they say otherwise. Exit code 1 when one fails,
    3 when a file is broken.
    """
    loaded = load_settings(ctx)
    present = documents_in_force(loaded, working_folder(""))
    candidates = load_policy_files(files) if files else LoadedDocuments()
    documents = overlay_documents(present.documents, candidates)
    tests = (
        candidates.documents
        if files
        else (*present.documents, *require_valid(load_file(BUILT_IN_TESTS_FILE)).documents)
    )
    if not any(isinstance(located.document, PolicyTest) for located in tests):
        raise HermesError(f"there is no PolicyTest in {', '.join(map(str, files))}")
    results = run_tests(
        tests, _policy_factory(documents, loaded), cwd=str(TEST_FOLDER), home=str(TEST_HOME)
    )
    failed = [result for result in results if not result.ok]
    if as_json:
        print_json(
            {
                "cases": len(results),
                "failed": len(failed),
                "results": [asdict(one) for one in results],
            }
        )
    else:
        _print_test_results(results, failed)
    return exit_codes.FAILED if failed else exit_codes.OK


def _policy_factory(
    documents: tuple[LocatedDocument, ...], loaded: LoadedSettings
) -> Callable[[str], DocumentPolicy]:
    settings = loaded.settings.policy

    @cache
    def policy_of(name: str) -> DocumentPolicy:
        if name and not (BUILT_IN_SETS_FOLDER / f"{name}.yaml").is_file():
            known = ", ".join(sorted(file.stem for file in BUILT_IN_SETS_FOLDER.glob("*.yaml")))
            raise SettingsError(f"a PolicyTest is for the set {name!r}; there are: {known}")
        chosen = require_valid(load_set(name)).documents if name else documents
        return build_test_policy(chosen, replace(settings, set=name) if name else settings)

    return policy_of


def _print_test_results(results: list[PolicyTestResult], failed: list[PolicyTestResult]) -> None:
    for one in failed:
        source = clean(short_source(one.source))
        echo(f"{source}: {one.test} case {one.case}: {escape_invisible(one.shown)}", fg="red")
        echo(f"  {escape_invisible(one.problem)}")
    tests = len({(one.source, one.test) for one in results})
    counted = f"{_count_text(len(results), 'case')} of {_count_text(tests, 'test')}"
    echo(f"{counted}: {len(failed)} failed" if failed else f"{counted}: all as expected")


def _count_text(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


@cli_command("""
hermes policy lint                       your files, and those of this project
hermes policy lint new-rule.yaml policies/
""")
@files_argument
def lint(ctx: click.Context, files: tuple[Path, ...], as_json: bool) -> int:
    """Find errors in FILES (or folders), and valid rules that are probably not intended.

    Each problem is printed as file:line: cause. Without FILES: your policy folder and
    `.hermes/policies` of this one. An error prevents the agent from starting; a `doubt` does not.
    Exit code 1 when a problem was found.
    """
    loaded = load_settings(ctx)
    problems = _find_problems(loaded, working_folder(""), files)
    if as_json:
        print_json([each.to_json() for each in problems])
    elif not problems:
        note("no problems found")
    else:
        for each in problems:
            echo(clean(str(each)))
    return exit_codes.FAILED if problems else exit_codes.OK


def _find_problems(loaded: LoadedSettings, folder: Path, files: tuple[Path, ...]) -> list[Problem]:
    settings = loaded.settings.policy
    present = load_policies(settings, loaded.home, folder)
    if not files:
        own = [always_rules_path(loaded).parent, folder / ".hermes" / "policies"]
        paths = [path for path in own if path.is_dir()]
        known = load_set(settings.set).documents
        return list(dict.fromkeys([*present.problems, *lint_files(paths, known)]))
    given_paths = {str(each.resolve()) for path in files for each in (path, *path.rglob("*.y*ml"))}
    known = tuple(
        one for one in present.documents if str(Path(one.file).resolve()) not in given_paths
    )
    return list(dict.fromkeys(lint_files(files, known)))
