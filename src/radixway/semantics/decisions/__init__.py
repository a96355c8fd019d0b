"""Rules over signals choose the model of a request, its system prompt, its tools, and whether it reasons.

State, and the file that owns it:

- `rules_file.py`: the file of rules and its history; replaced whole, under a lock that processes share, by
  an editor of its last version
- `snapshot_store.py`: compiled rules, one immutable `SemanticSnapshot`, swapped whole; a request keeps the
  one it began with
- `score_feedback.py`: scores of answers and the decisions they belong to; bounded, each request is scored
  once
"""

from radixway.semantics.decisions.detection import Detect
from radixway.semantics.decisions.middleware import Semantic
from radixway.semantics.decisions.service import SemanticService
from radixway.semantics.decisions.signal_reader import SignalReader
from radixway.semantics.decisions.snapshot import SemanticSnapshot, compile_snapshot
from radixway.semantics.decisions.snapshot_store import SnapshotStore
from radixway.semantics.decisions.verdict import (
    MissingSignals,
    judge_signals,
)
from radixway.semantics.signals.question import RequestQuestion

__all__ = [
    "Detect",
    "MissingSignals",
    "RequestQuestion",
    "Semantic",
    "SemanticService",
    "SemanticSnapshot",
    "SignalReader",
    "SnapshotStore",
    "compile_snapshot",
    "judge_signals",
]
