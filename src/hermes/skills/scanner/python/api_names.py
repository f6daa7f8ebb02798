"""Names of Python libraries, grouped by what a call of them does."""

import re

NETWORK_LIBRARY = re.compile(
    r"(?:requests|httpx|aiohttp|urllib3|urllib\.request|http\.client|websockets?|smtplib|ftplib|"
    r"telnetlib|xmlrpc\.client|pycurl|socket|boto3|paramiko|dns\.resolver|imaplib|nntplib|poplib|"
    r"asyncio\.open_connection|ssl)\b"
)
NETWORK_CALLS = frozenset({
    "post", "put", "patch", "get", "request", "urlopen", "Request", "HTTPSConnection",
    "HTTPConnection", "sendmail", "connect", "create_connection", "sendto", "SMTP", "SMTP_SSL",
    "FTP", "stream", "gethostbyname", "getaddrinfo", "resolve", "query", "Telnet", "ServerProxy",
    "urlretrieve", "head", "ws_connect", "open_connection", "send_message", "storbinary",
    "upload_file", "put_object", "send", "sendall", "delete", "options",
})  # fmt: skip
SENDING_CALLS = frozenset({
    "post", "put", "patch", "sendto", "sendmail", "storbinary", "upload_file", "put_object",
    "send_message", "create_connection", "gethostbyname", "getaddrinfo", "sendall",
    "HTTPSConnection", "HTTPConnection", "SMTP", "FTP", "SMTP_SSL",
})  # fmt: skip
PAYLOAD_ARGUMENTS = frozenset({"data", "json", "files", "content", "body", "params", "msg"})
COMMAND_ACTION_KINDS = (
    "stays", "access", "tracks", "workflows", "trust", "proxy", "destroys", "agent", "money",
    "unprotects", "names",
)  # fmt: skip
REMOVING_CALLS = frozenset({
    "shutil.rmtree", "os.remove", "os.unlink", "os.removedirs", "os.rmdir",
    "send2trash.send2trash",
})  # fmt: skip
OUTPUT_PATH = re.compile(
    r"(?:^|[/_\W])(?:te?mp_?\w*|out|output|build|dist|cache|work|workdir|target|scratch|stag\w*|"
    r"lock|pid|marker|partial|part|__pycache__|node_modules|unpacked|extract\w*|dest\w*|test\w*|"
    r"sock\w*)(?:[/_\W]|$)",
    re.IGNORECASE,
)
WRITING_METHODS = frozenset(
    ["write_text", "write_bytes", "symlink_to", "hardlink_to", "touch", "rename", "replace"]
)
COPYING_CALLS = frozenset({
    "shutil.copy", "shutil.copy2", "shutil.copyfile", "shutil.move", "shutil.copytree",
    "os.rename", "os.replace", "os.symlink", "os.link",
})  # fmt: skip
OPENING_CALLS = frozenset({"open", "io.open", "codecs.open"})
SPYING_MODULES = frozenset({
    "pynput", "keyboard", "pyperclip", "mss", "pyautogui", "sounddevice", "pyaudio", "ImageGrab",
    "pyscreenshot", "Xlib", "evdev", "mouse",
})  # fmt: skip
CODE_EXECUTION_CALLS = frozenset({
    "exec", "eval", "builtins.exec", "builtins.eval", "runpy.run_path", "runpy.run_module",
    "execfile", "marshal.loads", "pickle.loads", "pickle.load", "dill.loads", "dill.load",
    "joblib.load", "types.FunctionType", "types.CodeType", "code.InteractiveInterpreter",
    "imp.load_source", "ctypes.CDLL", "importlib.util.spec_from_file_location",
    "importlib.machinery.SourceFileLoader",
})  # fmt: skip
POWERFUL_MODULES = frozenset({
    "builtins", "__builtins__", "os", "subprocess", "sys", "importlib", "socket", "shutil",
    "posix",
})  # fmt: skip
DUMPING_CALLS = frozenset(
    ["dict", "json.dumps", "str", "repr", "list", "sorted", "pprint.pformat", "print"]
)
WHOLE_ENVIRONMENT_CALLS = frozenset(["os.environ.items", "os.environ.copy", "os.environ.values"])
INTERPRETER_HOOK = re.compile(
    r"sys\.(?:meta_path|path_hooks)\.|sys\.(?:settrace|setprofile)$|sys\.addaudithook$"
)
RESOURCE_CONSUMING_CALLS = frozenset({
    "fork", "Popen", "Process", "Thread", "spawn", "append", "extend", "mkdir", "write",
    "write_text", "write_bytes", "bytearray", "mkdtemp",
})  # fmt: skip
WAITING_CALLS = frozenset(
    ["sleep", "wait", "get", "recv", "accept", "join", "select", "readline", "input", "read"]
)
SECRET_VARIABLE_NAME = re.compile(
    r"TOKEN|SECRET|PASSW|PASSPH|API_?KEY|ACCESS_?KEY|PRIVATE_?KEY|CREDENTIAL|_KEY$|_PAT$|SESSION",
    re.IGNORECASE,
)
ALL_INTERFACES = re.compile(r"0\.0\.0\.0|\(\s*['\"]{2}\s*,|::")
LOCAL_DATA_CALL = re.compile(
    r"^(?:open|input|io\.open|subprocess|os\.(?:environ|getenv|popen|system|listdir|walk|scandir|"
    r"uname|getlogin)|glob|getpass|platform|socket\.gethostname|sqlite3|pwd)\b|"
    r"\.(?:read_text|read_bytes|home|iterdir|rglob|glob|expanduser|open)$"
)
PROCESS_START_CALL = re.compile(
    r"subprocess\b|os\.(?:system|popen|exec|spawn|posix_spawn)|pty\.|asyncio\.create_sub"
)
