"""A sequence classifier that says what domain a text belongs to, in place of the shipped head."""

from __future__ import annotations

import logging
from collections.abc import Generator, Sequence
from math import log as ln
from pathlib import Path

from radixway.encoders.classifiers.folder import discover
from radixway.encoders.classifiers.model import SequenceClassifier, load_sequence_classifier
from radixway.encoders.encoding import Encoder, EncoderError, Encoding
from radixway.encoders.heads.domain import Reading

log = logging.getLogger(__name__)


class WithCategories:
    """An `Encoder` beside which a classifier reads every text: its word comes with the encoding."""

    def __init__(self, encoder: Encoder, classifier: SequenceClassifier, path: Path) -> None:
        self.id = encoder.id
        self.weights = encoder.weights
        self.size = encoder.size
        self.layers = encoder.layers
        self.categories = classifier.labels
        self.path = path
        self._encoder = encoder
        self._classifier = classifier

    def pieces(self, text: str) -> Generator[None, None, Encoding]:
        """See `Encoder`."""
        return self._encoder.pieces(text)

    def encode(self, texts: Sequence[str], *, layers: Sequence[int] = ()) -> list[Encoding]:
        """See `Encoder`."""
        return [_finish(self.steps(text, layers=layers)) for text in texts]

    def steps(self, text: str, *, layers: Sequence[int] = ()) -> Generator[None, None, Encoding]:
        """See `Encoder`."""
        encoding = yield from self._encoder.steps(text, layers=layers)
        yield
        reading = yield from self._classifier.steps(text)
        encoding.categories = dict(zip(reading.labels, map(float, reading.mean), strict=True))
        return encoding


class CategoryHead:
    """A domain head that repeats what `WithCategories` found."""

    def read(self, text: str, encoding: Encoding) -> Reading:
        """The domain of the text whose encoding is `encoding`."""
        shares = encoding.categories
        assert shares is not None, "made by another encoder"
        best = max(shares, key=shares.__getitem__)
        entropy = -sum(share * ln(share) for share in shares.values() if share > 0)
        return Reading(best, shares[best], shares, entropy / ln(max(len(shares), 2)))


def with_categories(encoder: Encoder, path: Path, mapping: Path | None = None) -> Encoder:
    """`encoder` with the classifier at `path`; alone, and an error in the log, where that cannot be loaded.

    Blocks. `mapping` holds the labels where they do not lie beside the classifier.
    """
    try:
        classifier = load_sequence_classifier(path, mapping)
    except EncoderError as error:
        log.error("the shipped head reads domains: %s", error)
        return encoder
    return WithCategories(encoder, classifier, path)


def find_category_classifier(models: Path | None) -> Path | None:
    """The one in a models folder, if there is one."""
    found = discover(models).get("category") if models is not None else None
    return None if found is None else found.path


def _finish(steps: Generator[None, None, Encoding]) -> Encoding:
    while True:
        try:
            next(steps)
        except StopIteration as done:
            encoding: Encoding = done.value
            return encoding
