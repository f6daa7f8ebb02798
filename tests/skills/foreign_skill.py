"""A foreign skill in one line, and what the scanner says of it."""

from hermes.learning.exchange_publisher import shell_effects
from hermes.skills.scanner.finding import SkillFile
from hermes.skills.scanner.scan import ScanResult, scan_skill


def looked(
    description: str, *files: tuple[str, str], body: str = "Run it on a file."
) -> ScanResult:
    skill = f"---\nname: tool\ndescription: {description}\n---\n# Tool\n\n{body}\n"
    entries = [SkillFile(path="SKILL.md", data=skill.encode())]
    entries += [SkillFile(path=path, data=text.encode()) for path, text in files]
    return scan_skill(entries, "tool", shell_effects)


def causes(path: str, text: str, description: str = "Counts words in files.") -> str:
    return "; ".join(each.cause for each in looked(description, (path, text)).blocking_findings)
