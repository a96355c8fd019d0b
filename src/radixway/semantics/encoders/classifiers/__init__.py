"""Classifiers from Hugging Face directories, where there are any: ModernBERT, BERT, RoBERTa, LoRA adapters.

Need transformers and torch, which radixway[engine] brings; the shipped heads need neither.
"""

from radixway.semantics.encoders.classifiers.model import (
    SequenceClassifier,
    SequenceReading,
    TokenClassifier,
    TokenReading,
    load_sequence_classifier,
    load_token_classifier,
)
from radixway.semantics.encoders.classifiers.model_folder import discover_classifiers

__all__ = [
    "SequenceClassifier",
    "SequenceReading",
    "TokenClassifier",
    "TokenReading",
    "discover_classifiers",
    "load_sequence_classifier",
    "load_token_classifier",
]
