"""Imports a bundle: verify, quarantine, scan, compare capabilities, try, check evidence, place."""

import re
import shutil
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from hermes.core.messages import Value
from hermes.plumbing.yaml_document import YamlFileError
from hermes.skills.exchange.bundle import SkillBundle, read_bundle
from hermes.skills.exchange.keyring import Keyring
from hermes.skills.exchange.placement import SkillPlacement, plan_placement
from hermes.skills.exchange.signed_statements import ExchangeError, VerifySignature
from hermes.skills.format import is_hidden_path, parse_skill_text
from hermes.skills.history import SkillHistory, swap_in
from hermes.skills.lifecycle.evaluation import ReplayCase
from hermes.skills.lint import is_advice, lint_skill
from hermes.skills.scanner.finding import (
    ScanFinding,
    ScanVerdict,
    SkillFile,
    decide_scan_verdict,
    read_skill_files,
)
from hermes.skills.scanner.python.static_values import parse_python
from hermes.skills.scanner.scan import scan_skill
from hermes.skills.scanner.shell_text import ReadEffects, extract_shell_passages
from hermes.skills.scanner.trial import OpenTrialSandbox, run_trial

QUARANTINE_FOLDER = ".quarantine"
HIDDEN_FILE_CAUSE = "a hidden file: it is not in the digest, so a change of it would not be noticed"
EvidenceOutcome = Literal["passed", "failed", "not-run"]
_CLAIMED_CASE = re.compile(r'"variant ([\w-]{1,80}) #(\d{1,9})"')
_URL_HOST = re.compile(r"https?://([A-Za-z0-9.-]+\.[A-Za-z]{2,}|\d+\.\d+\.\d+\.\d+)")
_SHELL_PROGRAM = re.compile(
    r"(?:^|[|;&]\s*|\bsudo\s+|\$\(\s*)([a-z][\w.+-]{1,24})(?=\s+[-\w./\"'$~])", re.MULTILINE
)
_SHELL_KEYWORDS = re.compile(
    r"if|then|else|fi|for|do|done|while|case|esac|function|in|set|export|local|echo|return"
)


class CapabilityDifference(Value, kw_only=True, frozen=True):
    gained: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    undeclared: tuple[str, ...] = ()
    """Found in the files, but not declared in the manifest."""


class EvidenceResult(Value, frozen=True):
    """The result of replaying the evidence. Unless it passed, the skill stays a draft."""

    outcome: EvidenceOutcome
    detail: str = ""
    cases: tuple[str, ...] = ()
    """The cases that the publisher claims."""
    harm: tuple[str, ...] = ()
    """Damage during the replay."""


RerunEvidence = Callable[[Path, Sequence[SkillFile]], Awaitable[EvidenceResult]]
"""Replays the evidence of a skill folder."""
ReviewWithModel = Callable[[Sequence[SkillFile]], Awaitable[list[ScanFinding]]]
"""Lets a model read a skill that the rules did not block."""
ReportImportProgress = Callable[[str], None]
AdjustFindings = Callable[[str, Sequence[ScanFinding]], list[ScanFinding]]
"""Of a digest: the same findings; those that a person accepted do not block."""


class ImportExamination(Value, kw_only=True, frozen=True):
    """Everything known about a bundle before it is admitted."""

    bundle: SkillBundle
    folder: Path
    """Its folder in quarantine."""
    new_publisher: bool
    findings: tuple[ScanFinding, ...] = ()
    difference: CapabilityDifference = CapabilityDifference()
    proven: EvidenceResult = EvidenceResult("not-run")
    tried: bool = False
    """Its scripts ran in the sandbox, or there are none."""

    @property
    def blocked(self) -> bool:
        """Failed evidence does not block a skill; damage does."""
        return self.verdict == "stopped"

    @property
    def verdict(self) -> ScanVerdict:
        return "stopped" if self.proven.harm else decide_scan_verdict(self.findings)


@dataclass(frozen=True)
class SkillImporter:
    """Examines and admits foreign skills; other packages are reached by callables."""

    root: Path
    """The folder of the skills of the user."""
    keyring: Keyring
    verify_signature: VerifySignature
    open_sandbox: OpenTrialSandbox | None = None
    read_effects: ReadEffects | None = None
    rerun_evidence: RerunEvidence | None = None
    review_with_model: ReviewWithModel | None = None
    report_progress: ReportImportProgress = lambda _: None
    adjust_findings: AdjustFindings = lambda _, findings: list(findings)

    async def examine(self, data: bytes, existing: Path | None = None) -> ImportExamination:
        """Raises `ExchangeError` when the signature or the publisher is wrong."""
        bundle = read_bundle(data, self.verify_signature)
        known = self.keyring.check_bundle(bundle)
        self.report_progress(f"verified: {bundle.manifest.name} {bundle.manifest.version}")
        return await self.examine_bundle(bundle, existing, new_publisher=known is None)

    async def examine_bundle(
        self,
        bundle: SkillBundle,
        existing: Path | None = None,
        *,
        new_publisher: bool,
        found_before: Sequence[ScanFinding] = (),
    ) -> ImportExamination:
        """Everything after the signature; a skill of a repository has none."""
        name, digest = bundle.manifest.name, bundle.manifest.digest
        folder = self.root / QUARANTINE_FOLDER / digest[:12] / name
        replace_folder(folder, bundle.skill)
        scanned = [*found_before, *self._scan(bundle, folder)]
        findings = self.adjust_findings(digest, scanned)
        before = find_capabilities(read_skill_files(existing)) if existing is not None else ()
        found = find_capabilities(bundle.skill)
        tried, proven = False, EvidenceResult("not-run", "an earlier check stopped it")
        if self.review_with_model is not None and not any(finding.blocks for finding in findings):
            self.report_progress("a model reviews it")
            reviewed = await self.review_with_model(bundle.skill)
            findings += self.adjust_findings(digest, reviewed)
        if not any(finding.blocks for finding in findings):
            if self.open_sandbox is not None:
                self.report_progress("trying its scripts in a sandbox, among canary secrets")
                tried_findings = await run_trial(bundle.skill, self.open_sandbox)
                findings += self.adjust_findings(digest, tried_findings)
                tried = True
            if not any(finding.blocks for finding in findings):
                proven = await self._check_evidence(bundle, folder)
        return ImportExamination(
            bundle=bundle,
            folder=folder,
            new_publisher=new_publisher,
            findings=tuple(findings),
            difference=compare_capabilities(before, found, bundle.manifest.capabilities),
            proven=proven,
            tried=tried,
        )

    def admit(
        self, examined: ImportExamination, existing: Path | None = None, *, by: str = ""
    ) -> SkillPlacement:
        """Installs it as a draft. Raises `ExchangeError` when it is blocked."""
        if examined.blocked:
            raise ExchangeError(
                f"{examined.bundle.manifest.name} stays in quarantine: {examined.folder}"
            )
        placement = plan_placement(self.root, examined.bundle, existing)
        if placement.how != "same":
            history = SkillHistory(self.root)
            target = self.root / placement.folder
            if target.is_dir():
                history.record(target, reason="before an import", by=by)
            replace_folder(target, placement.entries)
            source = f"{examined.bundle.manifest.publisher} {examined.bundle.manifest.version}"
            history.record(target, reason=f"{placement.how} from {source}", by=by)
        if examined.bundle.key:
            self.keyring.record_bundle(
                examined.bundle, "" if placement.how == "same" else placement.folder
            )
        shutil.rmtree(examined.folder, ignore_errors=True)
        return placement

    def _scan(self, bundle: SkillBundle, folder: Path) -> list[ScanFinding]:
        self.report_progress("scanning it")
        name = bundle.manifest.name
        found = list(scan_skill(bundle.skill, name, self.read_effects).findings)
        found += [
            _structure_finding(each.path, 1, HIDDEN_FILE_CAUSE)
            for each in bundle.skill
            if is_hidden_path(each.path)
        ]
        own = next((each.text for each in bundle.skill if each.path == "SKILL.md"), "")
        linted = [each for each in lint_skill(folder) if each.fatal] if own else []
        found += [
            ScanFinding(
                "structure", Path(each.file).name, each.line, each.text, not is_advice(each)
            )
            for each in linted
        ]
        problems = [each for each in linted if not is_advice(each)]
        if not problems and own and parse_skill_text(own, folder=name).name != name:
            found.append(
                _structure_finding("SKILL.md", 2, f"it is signed as {name!r}, but has another name")
            )
        return found

    async def _check_evidence(self, bundle: SkillBundle, folder: Path) -> EvidenceResult:
        if not bundle.evidence:
            return EvidenceResult("not-run", "no evidence came with it")
        if self.rerun_evidence is None:
            cases = tuple(map(str, parse_claimed_cases(bundle.evidence)))
            return EvidenceResult("not-run", "the replay of its evidence was not requested", cases)
        self.report_progress("replaying its evidence")
        return await self.rerun_evidence(folder, bundle.evidence)


def replace_folder(folder: Path, entries: Sequence[SkillFile]) -> None:
    """Writes a new folder and swaps it in. Paths were checked when the bundle was unpacked."""
    new = folder.with_name(f".{folder.name}.new")
    shutil.rmtree(new, ignore_errors=True)
    try:
        for entry in entries:
            if not entry.link:
                _write_entry(new, entry)
        swap_in(new, folder)
    except OSError as error:
        shutil.rmtree(new, ignore_errors=True)
        raise ExchangeError(
            f"{folder} cannot be written: {error.strerror}; nothing was installed"
        ) from error


def _write_entry(new: Path, entry: SkillFile) -> None:
    path = new / entry.path
    if not path.resolve().is_relative_to(new.resolve()):
        raise ExchangeError(f"{entry.path!r} leads out of the skill")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(entry.data)
    path.chmod(0o755 if entry.executable else 0o644)


def _structure_finding(file: str, line: int, cause: str) -> ScanFinding:
    return ScanFinding("structure", file, line, cause)


def parse_claimed_cases(evidence: Sequence[SkillFile]) -> list[ReplayCase]:
    """The cases that the publisher claims to have replayed, each once, in order."""
    found = [match for entry in evidence for match in _CLAIMED_CASE.findall(entry.text)]
    return [ReplayCase(name=name, seed=int(seed)) for name, seed in dict.fromkeys(found)]


def find_capabilities(entries: Sequence[SkillFile]) -> tuple[str, ...]:
    found: set[str] = set()
    for entry in entries:
        if entry.link or b"\0" in entry.data[:2048]:
            continue
        found |= set(_find_file_capabilities(entry))
    return tuple(sorted(found))


def compare_capabilities(
    before: Sequence[str], found: Sequence[str], declared: Sequence[str]
) -> CapabilityDifference:
    return CapabilityDifference(
        gained=tuple(sorted({*found} - {*before})),
        lost=tuple(sorted({*before} - {*found})),
        undeclared=tuple(sorted({*found} - {*declared})),
    )


def _find_file_capabilities(entry: SkillFile) -> Iterator[str]:
    text = entry.text
    if entry.path == "SKILL.md":
        with suppress(YamlFileError):
            yield from (f"tool {tool}" for tool in parse_skill_text(text).allowed_tools)
    yield from (f"host {host.casefold()}" for host in _URL_HOST.findall(text))
    for passage in extract_shell_passages(entry.path, text):
        if passage.is_script:
            yield from (
                f"runs {name}"
                for name in _SHELL_PROGRAM.findall(passage.text)
                if not _SHELL_KEYWORDS.fullmatch(name)
            )
            if re.search(r"\bsudo\b", passage.text):
                yield "runs sudo"
    if entry.path.endswith(".py"):
        module = parse_python(text)
        names = ["code that cannot be read"] if module.error else [n for _, n in module.imports()]
        yield from (f"imports {name}" for name in names)
    if entry.path == "playbook.yaml":
        yield "playbook"
        for command in re.findall(r"^\s*(?:-\s*)?(?:command|undo):\s*(.+)$", text, re.MULTILINE):
            first = command.strip("'\" >|").split(" ")[0]
            if re.fullmatch(r"[a-z][\w.+-]+", first):
                yield f"runs {first}"
