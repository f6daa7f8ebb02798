"""The programs in bench/ are no package; their parts are imported from that folder."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "bench"))
