"""One line of Perl that filters text, or of any language that prints a constant: nothing else.

Perl is taken apart into tokens, and each must be on a list. Where Perl itself would have to guess
(is `/` a division or a pattern?) the line is not understood here, and so it asks.
"""

import re

from hermes.policy.commands.calls import Call
from hermes.policy.commands.generic import by_table
from hermes.policy.commands.marks import ANY, NAME, literal, settled
from hermes.policy.commands.tables import Program
from hermes.policy.commands.values import word_set

_STRING = r"""(?:'[^'\\]*'|"[^"\\$#@`]*")"""
_CONSTANT = rf"(?:{_STRING}|[\d\s()+*.%-]+|%s)"
_PRINTING = {
    "node": (r"console\.log\((?:{c}(?:,\s*{c})*)?\)", r"process\.(?:versions?(?:\.\w+)?|arch)"),
    "ruby": (r"(?:puts|print|p)[ (]\s*{c}\)?", r"RUBY_(?:VERSION|PLATFORM)"),
    "php": (r"(?:echo|print)[ (]\s*{c}(?:\s*\.\s*{c})*\)?", r"PHP_(?:VERSION|OS|EOL)"),
    "lua": (r"print\s*\(?\s*{c}\)?", r"_VERSION"),
    "perl": (r"(?:print|say)[ (]\s*{c}\)?", r"\$\]|\$\^V"),
}  # fmt: skip
_PRINTING["nodejs"] = _PRINTING["node"]
_OPTION = {"node": ("-e", "-p", "-pe"), "nodejs": ("-e", "-p"), "php": ("-r",)}


def one_liner(call: Call, entry: Program) -> str:
    """`node -e`, `ruby -e`, `php -r`, `lua -e`, and Perl in its role as a better sed."""
    words = call.argv[1:]
    if _prints(call.program, words) or (call.program == "perl" and _filters(words)):
        call.mark("read", f"{call.program} only computes and prints")
        for word in words:
            if word[:1] in "/~." and NAME not in word:
                call.reads(word)
        return ANY
    return by_table(call, entry) or ANY


def _prints(program: str, words: list[str]) -> bool:
    if len(words) != 2 or words[0] not in _OPTION.get(program, ("-e",)) or not settled(words[1]):
        return False
    shape, more = _PRINTING.get(program, ("(?!)", ""))
    constant = _CONSTANT.replace("%s", more) if more else _CONSTANT
    whole = constant if "p" in words[0] else shape.replace("{c}", constant)
    return re.fullmatch(whole, literal(words[1]).strip().rstrip(";").strip()) is not None


_LETTERS = re.compile(r"-(?:[nplaw]|0[0-7]{0,3})*(?:F(?:[:;,|\t]|\\t|\\s\+?|/[:;,\s]\+?/)|e|E)?")
_FILE = re.compile(rf"[\w.~/{NAME}+:@%-]*\w")


def _filters(words: list[str]) -> bool:
    """Options that only loop and split, code that only looks, files that only are files."""
    code, files, at = [], [], 0
    while at < len(words) and words[at].startswith("-"):
        word = words[at]
        at += 1
        letters = _LETTERS.fullmatch(word)
        if not letters:
            return False
        if word[-1] in "eE" and "F" not in word:
            code.append(words[at] if at < len(words) else "(")
            at += 1
    files = words[at:]
    # A name that ends in | is a command to Perl, and one with < or > a redirection.
    fine = all(_FILE.fullmatch(literal(word)) for word in files)
    return fine and bool(code) and all(settled(one) for one in code) and _looks("\n".join(code))


_WORDS = word_set(
    "print printf say if unless else elsif and or not next last for foreach while my split join"
    " length substr lc uc ucfirst sprintf scalar keys values sort reverse chomp BEGIN END eq ne lt"
    " gt le ge x push shift pop defined exists delete int hex oct abs sqrt index rindex STDOUT"
    " STDERR undef local exit cmp map grep"
)
_HIDDEN = word_set("ENV ARGV INC SIG ARGVOUT DATA")
_PATTERN = r"(?:[^/\\@$(\n]|\\.|\((?!\?\??\{|\?\#|\*)|\$(?=[)|/]))*"
_REPLACED = r"(?:[^/\\@$`\n]|\\.|\$[\d&])*"
_TOKEN = re.compile(
    rf"(?P<space>\s+)|(?P<number>\d[\d_.]*)|(?P<quoted>'[^'\\]*')"
    rf'|(?P<double>"(?:[^"\\$@`]|\\[^NLUQElu]|\$(?:\d+|&|\.|[A-Za-z_]\w*|_)(?:\[-?\d+\])?(?![\[{{]|->))*")'
    rf"|(?P<change>s/{_PATTERN}/{_REPLACED}/[gimsx]*|(?:tr|y)/[^/\\$@]*/[^/\\$@]*/[cdsr]*)(?!\w)"
    rf"|(?P<variable>\$#?(?:[A-Za-z_]\w*|\d+|[_&.,;/])|[@%][A-Za-z_]\w*)"
    rf"|(?P<word>[A-Za-z_]\w*)|(?P<match>m?/{_PATTERN}/[gimsx]*)(?!\w)"
    rf"|(?P<operator>=~|!~|<=>|<=|>=|==|!=|\+\+|--|&&|\|\||\.\.|[+*.,=-]=|[-+*%=>.,;:!(){{}}\[\]?<])"
)
_BEFORE_MATCH = word_set("( , if unless and or not && || ! =~ !~ { ; split grep") | {""}


def _looks(code: str) -> bool:
    if not re.search(r"\bprint|\bsay\b|\bs/|\btr/|\by/", code):
        return False  # whatever it is for, it is no filter
    before, kind, at = "", "", 0
    while at < len(code):
        found = _TOKEN.match(code, at)
        if found is None or found.lastgroup is None:
            return False
        at, text = found.end(), found.group()
        if found.lastgroup == "space":
            continue
        if not _fits(found.lastgroup, text, before, kind):
            return False
        before, kind = text, found.lastgroup
    return True


def _fits(kind: str, text: str, before: str, previous: str) -> bool:
    if kind == "word":
        return text in _WORDS and before != "-"
    if kind == "variable":
        return text.lstrip("$@%#") not in _HIDDEN
    if kind in ("match", "change"):
        return before in _BEFORE_MATCH or (kind == "change" and before == "}")
    if text == "<":
        return previous in ("variable", "number") or before in (")", "]")
    return True


_ENVIRONMENT = re.compile(r"\benv\b|\$ENV\b|\bstrenv\b|\benvsubst\b")
_LOADS = re.compile(r"\bload(?:_\w+)?\s*\(")


def json_filter(call: Call, entry: Program) -> str:
    """jq and yq: a filter may print the environment; that of yq may read any file."""
    by_table(call, entry)
    for word in map(literal, call.argv[1:]):
        if _ENVIRONMENT.search(word):
            call.mark("secret-read", "the filter prints variables of the environment")
        if call.program == "yq" and _LOADS.search(word):
            call.mark("secret-read", "the filter reads files of its own choice")
    return ANY
