"""What a skill may use: names of the standard library that only compute, and of each what.

The sandbox would stop the rest as well. Said here, it is said before anything runs, with a line.
"""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


COMPUTES = _words(
    """
    __future__ abc array base64 binascii bisect calendar collections colorsys configparser copy csv
    dataclasses datetime decimal difflib enum fnmatch fractions functools graphlib gzip hashlib
    heapq hmac html io ipaddress itertools json locale math numbers operator os pathlib posixpath
    pprint random re secrets shlex shutil statistics string struct sys textwrap time timeit tomllib
    types typing unicodedata urllib uuid warnings xml zipfile zlib zoneinfo
    """
)
PARTS: dict[str, frozenset[str]] = {
    "os": _words(
        "path sep linesep fspath makedirs mkdir listdir scandir stat remove unlink rename replace "
        "getcwd walk PathLike"
    ),
    "sys": _words("maxsize version_info float_info byteorder getsizeof"),
    "shutil": _words("copy copy2 copyfile copyfileobj move rmtree disk_usage"),
    "urllib": frozenset({"parse"}),
    "operator": _words(
        "itemgetter add sub mul truediv floordiv mod neg eq ne lt le gt ge and_ or_ xor not_ "
        "contains getitem concat index"
    ),
    "types": _words("MappingProxyType SimpleNamespace"),
    "io": _words("StringIO BytesIO TextIOWrapper"),
    "xml": frozenset({"etree", "sax"}),
}
"""Modules of which only these names are used."""
REACHES = {
    "network": "socket ssl http ftplib smtplib poplib imaplib telnetlib xmlrpc socketserver "
    "asyncio selectors select requests httpx httpx2 aiohttp urllib3 websockets paramiko "
    "boto3 nntplib webbrowser wsgiref",
    "other programs": "subprocess pty multiprocessing concurrent threading _thread signal sched "
    "pexpect psutil",
    "the machine": "ctypes cffi mmap resource fcntl termios pwd grp syslog platform tempfile glob",
    "the interpreter": "importlib imp runpy pkgutil builtins inspect gc code codeop site sysconfig "
    "ast dis marshal pickle shelve copyreg weakref traceback linecache tracemalloc faulthandler "
    "zipimport ensurepip venv pip setuptools",
}
"""What a module that is refused would reach."""
NEVER = _words(
    """
    exec eval compile __import__ globals locals vars breakpoint input memoryview
    __builtins__ __loader__ __spec__ exit quit help
    """
)
ATTRIBUTE_NAMED = frozenset({"getattr", "setattr", "delattr", "hasattr"})
FRAMES = _words(
    """
    f_globals f_locals f_builtins f_back f_code gi_frame gi_code cr_frame ag_frame tb_frame tb_next
    func_globals co_code _getframe modules meta_path path_hooks system popen load_module
    find_module exec_module get_data attrgetter methodcaller
    """
)
PLAIN_DUNDERS = _words(
    """
    __name__ __doc__ __init__ __post_init__ __str__ __repr__ __eq__ __lt__ __hash__ __len__ __iter__
    __next__ __enter__ __exit__ __contains__ __getitem__ __call__ __add__ __bool__ __slots__
    __annotations__ __all__ __version__ __cause__ __context__
    """
)


def reach_of(module: str) -> str:
    """What it would reach, in words; empty when it is simply not known."""
    return next((what for what, names in REACHES.items() if module in names.split()), "")


def reaches(name: str) -> bool:
    """A module by which more can be reached than a skill may, also under the name of an insider."""
    plain = name.lstrip("_")
    return plain in ("os", "sys", "shutil", "nt", "posix") or bool(reach_of(plain))
