"""Classifiers from Hugging Face directories, where there are any: ModernBERT, BERT, RoBERTa, LoRA adapters.

Need transformers and torch, which radixway[engine] brings; the shipped heads need neither.
"""

from radixway.encoders.classifiers.folder import Found, discover
from radixway.encoders.classifiers.model import (
    SequenceClassifier,
    SequenceReading,
    Span,
    TokenClassifier,
    TokenReading,
    load_sequence_classifier,
    load_token_classifier,
)

__all__ = [
    "Found",
    "SequenceClassifier",
    "SequenceReading",
    "Span",
    "TokenClassifier",
    "TokenReading",
    "discover",
    "load_sequence_classifier",
    "load_token_classifier",
]
