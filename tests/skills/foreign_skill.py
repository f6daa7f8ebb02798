"""A foreign skill in one line, and what the scanner says of it."""

from hermes.app.exchange_checks import shell_effects
from hermes.skills.scanner.finding import Entry
from hermes.skills.scanner.scan import Scan, scan


def looked(description: str, *files: tuple[str, str], body: str = "Run it on a file.") -> Scan:
    skill = f"---\nname: tool\ndescription: {description}\n---\n# Tool\n\n{body}\n"
    entries = [Entry(path="SKILL.md", data=skill.encode())]
    entries += [Entry(path=path, data=text.encode()) for path, text in files]
    return scan(entries, "tool", shell_effects)


def causes(path: str, text: str, description: str = "Counts words in files.") -> str:
    return "; ".join(each.cause for each in looked(description, (path, text)).reasons)
