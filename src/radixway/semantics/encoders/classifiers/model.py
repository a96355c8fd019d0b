"""Sequence and token classifiers in transformers, read in windows like every text.

Run them in the encoder's threads: `service.run(lambda _: classifier.steps(text))`.
"""

from collections.abc import Generator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from radixway.semantics.encoders.base import EncoderError, Floats, Ints
from radixway.semantics.encoders.classifiers.model_folder import read_labels
from radixway.semantics.encoders.word_pieces import TokenWindow, WordPieces

_MAX_TOKENS = 512


@dataclass(slots=True, frozen=True)
class SequenceReading:
    """A text, as a sequence classifier sees it."""

    labels: tuple[str, ...]
    windows: Floats
    """[windows, labels]: probabilities, each row adding up to 1."""
    tokens: Ints
    """[windows]: how many of the text's tokens each window stands for."""

    @property
    def mean(self) -> Floats:
        """[labels], by tokens: what the text is as a whole."""
        average: Floats = np.average(self.windows, axis=0, weights=np.maximum(self.tokens, 1)).astype(
            np.float32
        )
        return average

    @property
    def max_probabilities(self) -> Floats:
        """[labels]: the highest of any window: what is anywhere in the text."""
        highest: Floats = self.windows.max(axis=0)
        return highest


@dataclass(slots=True, frozen=True)
class LabeledSpan:
    """A stretch of a text."""

    label: str
    begin: int
    """Start in characters."""
    end: int
    confidence: float
    """The mean over its tokens."""


@dataclass(slots=True, frozen=True)
class TokenReading:
    """A text, as a token classifier sees it."""

    labels: tuple[str, ...]
    tokens: Floats
    """[tokens, labels]: probabilities."""
    offsets: Ints
    """[tokens, 2], in characters."""

    def spans(self, threshold: float) -> list[LabeledSpan]:
        """Return what is named, in order: neighbours of one type are one span unless a `B-` begins another.

        `O` and `NO_PII` name nothing. A span counts when its confidence reaches `threshold`.
        """
        found: list[list[int]] = []
        best = self.tokens.argmax(axis=1)
        names = [self.labels[index] for index in best]
        for at, name in enumerate(names):
            if _strip_tag_prefix(name) is None:
                continue
            goes_on = (
                found and found[-1][1] == at and _strip_tag_prefix(names[at - 1]) == _strip_tag_prefix(name)
            )
            if goes_on and not name.startswith("B-"):
                found[-1][1] = at + 1
            else:
                found.append([at, at + 1])
        spans = [self._span(names[begin], begin, end, best) for begin, end in found]
        return [span for span in spans if span.confidence >= threshold]

    def _span(self, name: str, begin: int, end: int, best: Any) -> LabeledSpan:
        confidence = float(self.tokens[np.arange(begin, end), best[begin:end]].mean())
        return LabeledSpan(
            _strip_tag_prefix(name) or name,
            int(self.offsets[begin, 0]),
            int(self.offsets[end - 1, 1]),
            confidence,
        )


def _strip_tag_prefix(label: str) -> str | None:
    """Return `PERSON` for `B-PERSON`; None for a label without an entity."""
    return None if label in ("O", "NO_PII") else label.removeprefix("B-").removeprefix("I-")


class _Model:
    """A model with its tokenizer and labels."""

    def __init__(self, model: Any, pieces: WordPieces, labels: tuple[str, ...]) -> None:
        self.labels = labels
        self._model = model
        self._pieces = pieces

    def _probabilities(self, window: TokenWindow) -> Floats:
        """Return [1, labels] or [n, labels]."""
        import torch

        ids = torch.from_numpy(window.ids.astype(np.int64))[None]
        with torch.inference_mode():
            logits = self._model(input_ids=ids, attention_mask=torch.ones_like(ids)).logits
            probabilities: Floats = logits.float().softmax(-1).numpy().reshape(-1, len(self.labels))
        return probabilities


class SequenceClassifier(_Model):
    """Labels a text: a category, or whether it is a jailbreak."""

    def classify_steps(self, text: str) -> Generator[None, None, SequenceReading]:
        """Pauses after every window, see `EncoderService.run_work`."""
        rows: list[Floats] = []
        tokens: list[int] = []
        for window in self._pieces.windows(self._pieces.split_text(text)):
            if rows:
                yield
            rows.append(self._probabilities(window))
            tokens.append(window.end - window.begin)
        return SequenceReading(self.labels, np.concatenate(rows), np.array(tokens, np.int32))


class TokenClassifier(_Model):
    """A label per token: PII."""

    def classify_steps(self, text: str) -> Generator[None, None, TokenReading]:
        """Pauses after every window, see `EncoderService.run_work`."""
        pieces = self._pieces.split_text(text)
        rows: list[Floats] = []
        for window in self._pieces.windows(pieces):
            if rows:
                yield
            owned = slice(window.at, window.at + window.end - window.begin)
            rows.append(self._probabilities(window)[owned])
        return TokenReading(self.labels, np.concatenate(rows), pieces.offsets)


def load_sequence_classifier(directory: Path, mapping: Path | None = None) -> SequenceClassifier:
    """Load a classifier. Blocks. `mapping`: its labels, if they do not lie beside it. Raises EncoderError."""
    return SequenceClassifier(*_load_parts(directory, mapping, "AutoModelForSequenceClassification"))


def load_token_classifier(directory: Path, mapping: Path | None = None) -> TokenClassifier:
    """Load a token classifier. Blocks; see `load_sequence_classifier`."""
    return TokenClassifier(*_load_parts(directory, mapping, "AutoModelForTokenClassification"))


def _load_parts(directory: Path, mapping: Path | None, kind: str) -> tuple[Any, WordPieces, tuple[str, ...]]:
    for package in ("torch", "transformers"):
        if find_spec(package) is None:
            raise EncoderError(f"{directory} needs {package}; without it the shipped heads judge")
    labels = read_labels(directory, mapping)
    model = _read_model(directory, kind, len(labels))
    if model.config.num_labels != len(labels):
        raise EncoderError(
            f"{directory} has {model.config.num_labels} outputs, its mapping {len(labels)} labels"
        )
    longest = min(_MAX_TOKENS, _max_positions(model.config))
    return model, WordPieces(directory, longest), labels


def _read_model(directory: Path, kind: str, labels: int) -> Any:
    import torch
    import transformers

    from radixway.semantics.encoders.classifiers.lora import merge_adapter, read_adapter

    torch.set_num_threads(1)
    source = getattr(transformers, kind)
    try:
        if not (directory / "adapter_config.json").is_file():
            return source.from_pretrained(directory).eval()
        adapter = read_adapter(directory)
        model = source.from_pretrained(adapter.base, num_labels=labels).eval()
    except (OSError, ValueError, RuntimeError, ImportError) as error:
        raise EncoderError(f"{directory} cannot be loaded: {str(error).partition(chr(10))[0]}") from error
    with torch.no_grad():
        merge_adapter(adapter, {**model.state_dict()})
    return model


def _max_positions(config: Any) -> int:
    """Return the position count; RoBERTa counts from behind its padding id."""
    taken = config.pad_token_id + 1 if config.model_type in ("roberta", "xlm-roberta") else 0
    return int(config.max_position_embeddings) - taken
