"""Where a stream of the Modal SDK goes."""

import subprocess
from enum import Enum


class StreamType(Enum):
    DEVNULL = subprocess.DEVNULL
    PIPE = subprocess.PIPE
    STDOUT = subprocess.STDOUT
