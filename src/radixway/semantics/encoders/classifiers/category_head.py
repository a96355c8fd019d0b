"""Which domain a text belongs to: a sequence classifier where one is given, in place of the shipped head."""

import logging
from collections.abc import Generator, Sequence
from pathlib import Path

from radixway.core.work_slices import run_at_once
from radixway.semantics.encoders.base import EncoderError, TextEncoder, TextEncoding
from radixway.semantics.encoders.classifiers.model import SequenceClassifier, load_sequence_classifier
from radixway.semantics.encoders.classifiers.model_folder import discover_classifiers
from radixway.semantics.encoders.heads import DOMAIN_HEAD, DomainHead
from radixway.semantics.encoders.heads.domain_head import DomainReading
from radixway.semantics.encoders.service import EncoderService

log = logging.getLogger(__name__)


class CategoryEncoder:
    """An `TextEncoder` beside which a classifier reads every text: its word comes with the encoding."""

    def __init__(self, encoder: TextEncoder, classifier: SequenceClassifier, path: Path) -> None:
        self.id = encoder.id
        self.weights = encoder.weights
        self.size = encoder.size
        self.layers = encoder.layers
        self.categories = classifier.labels
        self.path = path
        self._encoder = encoder
        self._classifier = classifier

    def split_pieces(self, text: str) -> Generator[None, None, TextEncoding]:
        """See `TextEncoder`."""
        return self._encoder.split_pieces(text)

    def encode(self, texts: Sequence[str], *, layers: Sequence[int] = ()) -> list[TextEncoding]:
        """See `TextEncoder`."""
        return [run_at_once(self.encode_steps(text, layers=layers)) for text in texts]

    def encode_steps(self, text: str, *, layers: Sequence[int] = ()) -> Generator[None, None, TextEncoding]:
        """See `TextEncoder`."""
        encoding = yield from self._encoder.encode_steps(text, layers=layers)
        yield
        reading = yield from self._classifier.classify_steps(text)
        encoding.categories = dict(zip(reading.labels, map(float, reading.mean), strict=True))
        return encoding


class CategoryHead:
    """A domain head that repeats what `CategoryEncoder` found."""

    def classify_domain(self, text: str, encoding: TextEncoding) -> DomainReading:
        """Return the domain of the text whose encoding is `encoding`."""
        shares = encoding.categories
        assert shares is not None, "made by another encoder"
        return DomainReading.from_distribution(shares)


def with_categories(encoder: TextEncoder, path: Path, mapping: Path | None = None) -> TextEncoder:
    """`encoder` with the classifier at `path`; alone, and an error in the log, where that cannot be loaded.

    Blocks. `mapping` holds the labels where they do not lie beside the classifier.
    """
    try:
        classifier = load_sequence_classifier(path, mapping)
    except EncoderError as error:
        log.error("domains are classified by the shipped head: %s", error)
        return encoder
    return CategoryEncoder(encoder, classifier, path)


def find_category_classifier(models: Path | None) -> Path | None:
    """Return the one in a models folder, if there is one."""
    found = discover_classifiers(models).get("category") if models is not None else None
    return None if found is None else found.path


async def load_domain_classifier(encoders: EncoderService) -> DomainHead | CategoryHead:
    """Load the head that fits the encoder of `encoders`. Raises EncoderError."""
    encoder = await encoders.wait_until_ready()
    if isinstance(encoder, CategoryEncoder):
        return CategoryHead()
    return DomainHead.load_file(DOMAIN_HEAD, encoder)
