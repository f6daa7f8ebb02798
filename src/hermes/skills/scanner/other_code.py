"""JavaScript, Ruby, Perl, PHP and the rest: fewer words than Python's tree, and the same sums."""

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from hermes.skills.scanner.finding import Finding

_CODE = {".js", ".mjs", ".cjs", ".ts", ".tsx", ".jsx", ".rb", ".pl", ".pm", ".php", ".lua", ".go",
         ".rs", ".java", ".c", ".cpp", ".cs", ".swift", ".kt", ".r", ".jl", ".ps1", ".html", ".svg",
         ".htm", ".json", ".ipynb"}  # fmt: skip
_NETWORK = re.compile(
    r"require\(['\"](?:node:)?(?:https?|net|dgram|dns|tls|axios|node-fetch|got|request|ws)['\"]\)|\bfetch\s*\(|"
    r"from\s+['\"](?:node:)?(?:https?|net|axios|node-fetch|got|ws)['\"]|XMLHttpRequest|sendBeacon|WebSocket\s*\(|Net::HTTP|"
    r"TCPSocket|open-uri|IO::Socket|LWP::|HTTP::Tiny|fsockopen|curl_init|net/http|reqwest|TcpStream|HttpClient|WebClient|"
    r"Invoke-WebRequest|Invoke-RestMethod|socket\.http",
)
_SECRET = re.compile(
    r"\.ssh\b(?!/config)|id_(?:rsa|ed25519)\b(?!\.pub)|\.aws\b|\.netrc|\.git-credentials|\.gnupg|\.kube\b|\.npmrc|_history\b|"
    r"/etc/(?:passwd|shadow)|Login Data|wallet|solana|\.bitcoin|\.ethereum|keystore|keychain|document\.cookie|"
    r"JSON\.stringify\(\s*process\.env\s*\)|Object\.(?:entries|assign|keys)\([^)]*process\.env|\.\.\.process\.env|"
    r"ENV\.to_h|ENV\.inspect|%ENV|print_r\(\$_(?:ENV|SERVER)|os\.Environ\(\)|Get-ChildItem env:|localStorage",
)
_SIGNS = (
    (re.compile(r"\b(?:eval|Function|vm\.run\w+|setTimeout)\s*\(\s*(?:atob|Buffer\.from|unescape|decodeURIComponent|String\.fromCharCode|[\w.]+\.split\(['\"]['\"]\)\.reverse)"), "code that was packed away is run"),
    (re.compile(r"(?:eval|Function)\s*\([^)\n]*(?:fetch|await|\.data|\.text\(|body|responseText)"), "what was fetched is run unseen"),
    (re.compile(r"(?:globalThis|global|window|this|process)\s*\[\s*(?:['\"][\w]{1,8}['\"]\s*\+|atob|Buffer|String\.from|\w+\.join)"), "a name that is made up on the way"),
    (re.compile(r"require\s*\(\s*(?:['\"][\w:]{1,8}['\"]\s*\+|atob|Buffer|String\.from|\[[^\]]*\]\.join)"), "an import that hides"),
    (re.compile(r"(?:net\.connect|net\.Socket|new\s+net|TCPSocket\.(?:new|open)|fsockopen|IO::Socket)[\s\S]{0,300}(?:spawn|exec|/bin/(?:ba)?sh|pipe\(|system|popen)|(?:spawn|exec)\w*\([^)]*/bin/(?:ba)?sh[\s\S]{0,300}(?:pipe|connect)"), "a shell handed to somebody far away"),
    (re.compile(r"\"(?:pre|post)?(?:install|prepare|publish)\"\s*:\s*\"[^\"]*(?:curl|wget|node\s+-e|eval|base64|powershell|https?://|child_process|\bsh\b)", re.I), "installing it runs something foreign"),
    (re.compile(r"<script\b[^>]*\bsrc=['\"]?https?://(?!cdn\.jsdelivr|unpkg\.com|cdnjs|cdn\.tailwind|code\.jquery|fonts\.|esm\.sh|cdn\.plot)|\bon(?:load|error)\s*=\s*['\"][^'\"]*(?:fetch|eval|location|cookie)|javascript:", re.I), "a page that runs something foreign"),
    (re.compile(r"(?:exec|execSync|spawn|system|popen|shell_exec|passthru|Command::new|exec\.Command)\s*\(?\s*[`'\"][^`'\"]*(?:curl|wget|nc|bash -i|/dev/tcp)[^`'\"]*(?:\||http)"), "what was fetched is run unseen"),
    (re.compile(r"\beval\b[^\n]*(?:gzinflate|base64_decode|str_rot13|pack\(|unpack\()|preg_replace\(['\"]/.*/e"), "code that was packed away is run"),
    (re.compile(r"(?:authorized_keys|\.bashrc|\.zshrc|LaunchAgents|crontab|CurrentVersion..?Run|\.git/hooks)[\s\S]{0,200}(?:write|append|Set-Content|exec)|(?:writeFile|appendFile|File\.write|fwrite|Add-Content|os\.WriteFile)\w*\([\s\S]{0,120}(?:authorized_keys|\.bashrc|\.zshrc|LaunchAgents|crontab|\.git/hooks)"), "it would stay behind"),
    (re.compile(r"(?:rmSync|rm_rf|rimraf|RemoveAll|remove_dir_all|unlink|Remove-Item)\s*\(?[^\n]{0,60}(?:homedir|HOME|Dir\.home|\$HOME|['\"]/['\"]|UserProfile)"), "everything of a person would be removed"),
    (re.compile(r"(?:Date\.now\(\)|new Date\(\)|Time\.now)[^\n]{0,30}[<>]=?\s*(?:new Date\(|\d{10,13}|Time\.)[\s\S]{0,400}(?:exec|rm|unlink|fetch|eval|spawn)"), "it waits for a date, and then acts"),
)  # fmt: skip


def look_at_other_code(path: str, text: str) -> Iterator[Finding]:
    if PurePosixPath(path).suffix.casefold() not in _CODE:
        return
    for sign, cause in _SIGNS:
        if found := sign.search(text):
            yield _found(path, text.count("\n", 0, found.start()) + 1, cause)
    secret = _SECRET.search(text)
    if secret and _NETWORK.search(text):
        line = text.count("\n", 0, secret.start()) + 1
        yield _found(path, line, f"it reads {secret[0]!r} and talks to the network")


def _found(path: str, line: int, cause: str) -> Finding:
    return Finding(kind="shell", file=path, line=line, cause=cause)
