"""Names in Python's libraries by what calling them means."""

import re

NETWORK = re.compile(
    r"(?:requests|httpx|aiohttp|urllib3|urllib\.request|http\.client|websockets?|smtplib|ftplib|"
    r"telnetlib|xmlrpc\.client|pycurl|socket|boto3|paramiko|dns\.resolver|imaplib|nntplib|poplib|"
    r"asyncio\.open_connection|ssl)\b"
)
CALLS_OUT = frozenset(
    [
        "post",
        "put",
        "patch",
        "get",
        "request",
        "urlopen",
        "Request",
        "HTTPSConnection",
        "HTTPConnection",
        "sendmail",
        "connect",
        "create_connection",
        "sendto",
        "SMTP",
        "SMTP_SSL",
        "FTP",
        "stream",
        "gethostbyname",
        "getaddrinfo",
        "resolve",
        "query",
        "Telnet",
        "ServerProxy",
        "urlretrieve",
        "head",
        "ws_connect",
        "open_connection",
        "send_message",
        "storbinary",
        "upload_file",
        "put_object",
        "send",
        "sendall",
        "delete",
        "options",
    ]
)
SENDS = frozenset(
    [
        "post",
        "put",
        "patch",
        "sendto",
        "sendmail",
        "storbinary",
        "upload_file",
        "put_object",
        "send_message",
        "create_connection",
        "gethostbyname",
        "getaddrinfo",
        "sendall",
        "HTTPSConnection",
        "HTTPConnection",
        "SMTP",
        "FTP",
        "SMTP_SSL",
    ]
)
PAYLOAD = frozenset({"data", "json", "files", "content", "body", "params", "msg"})
BY_COMMAND = ("stays", "access", "tracks", "workflows", "trust", "proxy", "destroys", "agent",
              "money", "unprotects", "names")  # fmt: skip
REMOVES = frozenset(
    [
        "shutil.rmtree",
        "os.remove",
        "os.unlink",
        "os.removedirs",
        "os.rmdir",
        "send2trash.send2trash",
    ]
)
OWN_OUTPUT = re.compile(
    r"(?:^|[/_\W])(?:te?mp_?\w*|out|output|build|dist|cache|work|workdir|target|scratch|stag\w*|"
    r"lock|pid|marker|partial|part|__pycache__|node_modules|unpacked|extract\w*|dest\w*|test\w*|"
    r"sock\w*)(?:[/_\W]|$)",
    re.IGNORECASE,
)
WRITES = frozenset(
    ["write_text", "write_bytes", "symlink_to", "hardlink_to", "touch", "rename", "replace"]
)
MOVES = frozenset(
    [
        "shutil.copy",
        "shutil.copy2",
        "shutil.copyfile",
        "shutil.move",
        "shutil.copytree",
        "os.rename",
        "os.replace",
        "os.symlink",
        "os.link",
    ]
)
OPENS = frozenset({"open", "io.open", "codecs.open"})
SPIES = frozenset(
    [
        "pynput",
        "keyboard",
        "pyperclip",
        "mss",
        "pyautogui",
        "sounddevice",
        "pyaudio",
        "ImageGrab",
        "pyscreenshot",
        "Xlib",
        "evdev",
        "mouse",
    ]
)
RUNS = frozenset(
    [
        "exec",
        "eval",
        "builtins.exec",
        "builtins.eval",
        "runpy.run_path",
        "runpy.run_module",
        "execfile",
        "marshal.loads",
        "pickle.loads",
        "pickle.load",
        "dill.loads",
        "dill.load",
        "joblib.load",
        "types.FunctionType",
        "types.CodeType",
        "code.InteractiveInterpreter",
        "imp.load_source",
        "ctypes.CDLL",
        "importlib.util.spec_from_file_location",
        "importlib.machinery.SourceFileLoader",
    ]
)
POWERFUL = frozenset(
    [
        "builtins",
        "__builtins__",
        "os",
        "subprocess",
        "sys",
        "importlib",
        "socket",
        "shutil",
        "posix",
    ]
)
SHOWS = frozenset(
    ["dict", "json.dumps", "str", "repr", "list", "sorted", "pprint.pformat", "print"]
)
WHOLE_ENVIRONMENT = frozenset(["os.environ.items", "os.environ.copy", "os.environ.values"])
HOOKS = re.compile(
    r"sys\.(?:meta_path|path_hooks)\.|sys\.(?:settrace|setprofile)$|sys\.addaudithook$"
)
TAKES = frozenset(
    [
        "fork",
        "Popen",
        "Process",
        "Thread",
        "spawn",
        "append",
        "extend",
        "mkdir",
        "write",
        "write_text",
        "write_bytes",
        "bytearray",
        "mkdtemp",
    ]
)
WAITS = frozenset(
    ["sleep", "wait", "get", "recv", "accept", "join", "select", "readline", "input", "read"]
)
SECRET_NAME = re.compile(
    r"TOKEN|SECRET|PASSW|PASSPH|API_?KEY|ACCESS_?KEY|PRIVATE_?KEY|CREDENTIAL|_KEY$|_PAT$|SESSION",
    re.IGNORECASE,
)
EVERYWHERE = re.compile(r"0\.0\.0\.0|\(\s*['\"]{2}\s*,|::")
LOCAL = re.compile(
    r"^(?:open|input|io\.open|subprocess|os\.(?:environ|getenv|popen|system|listdir|walk|scandir|"
    r"uname|getlogin)|glob|getpass|platform|socket\.gethostname|sqlite3|pwd)\b|"
    r"\.(?:read_text|read_bytes|home|iterdir|rglob|glob|expanduser|open)$"
)
STARTS = re.compile(
    r"subprocess\b|os\.(?:system|popen|exec|spawn|posix_spawn)|pty\.|asyncio\.create_sub"
)
