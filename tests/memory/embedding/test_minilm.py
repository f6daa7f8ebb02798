"""The real embedder: what it makes of texts, and what happens without it."""

import subprocess
import sys
from array import array

import pytest

from hermes.memory.embedding.embedder import missing_packages, open_embedder
from hermes.memory.search.line_index import Embedder


@pytest.fixture(scope="module")
def embedder() -> Embedder:
    opened = open_embedder()
    assert opened is not None, (
        f"the tests want the extra `embeddings`; missing: {missing_packages()}"
    )
    return opened


def cosine(one: bytes, other: bytes) -> float:
    return sum(a * b for a, b in zip(array("f", one), array("f", other), strict=True))


def test_texts_that_mean_the_same_are_near(embedder: Embedder) -> None:
    disk, space, cat = embedder.embed(
        ["the disk is full", "no space left on the volume", "my cat likes fish"]
    )
    assert cosine(disk, space) > cosine(disk, cat) + 0.2


def test_vectors_are_unit_length_and_come_in_the_order_asked(embedder: Embedder) -> None:
    texts = ["a much longer sentence about nothing in particular " * 3, "short", "", "middle one"]
    together = embedder.embed(texts)
    assert [len(vector) for vector in together] == [4 * embedder.dimensions] * 4
    for text, vector in zip(texts, together, strict=True):
        assert cosine(vector, vector) == pytest.approx(1.0, abs=1e-3)
        assert cosine(vector, embedder.embed([text])[0]) > 0.98


def test_a_text_of_ten_megabytes_is_embedded_by_its_head(embedder: Embedder) -> None:
    head = "the disk is full " * 400
    (whole,) = embedder.embed([head + "x" * 10_000_000])
    assert cosine(whole, embedder.embed([head])[0]) > 0.99


def test_looking_for_the_embedder_imports_none_of_its_libraries() -> None:
    code = (
        "import sys, hermes.memory.embedding.embedder as o; o.missing_packages();"
        "import hermes.memory.search.recall;"
        "sys.exit(any(m in sys.modules for m in ('numpy', 'onnxruntime', 'tokenizers')))"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_without_its_packages_there_is_no_embedder_and_no_error() -> None:
    code = (
        "import sys; sys.modules.update(dict.fromkeys(['numpy', 'onnxruntime', 'tokenizers']));"
        "from hermes.memory.embedding.embedder import missing_packages, open_embedder;"
        "assert open_embedder() is None and 'onnxruntime' in missing_packages()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
