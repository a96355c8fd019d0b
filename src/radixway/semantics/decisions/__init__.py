"""What a request means: signals, and the decision they add up to.

Which model answers it, under which system prompt, thinking or not, with which tools.
"""

from radixway.semantics.decisions.cache_rules import CacheDefault
from radixway.semantics.decisions.detection import Detect, RuleBlockedError
from radixway.semantics.decisions.middleware import Semantic
from radixway.semantics.decisions.question import RequestQuestion, read_question
from radixway.semantics.decisions.score_feedback import ScoreFeedback
from radixway.semantics.decisions.service import SemanticService
from radixway.semantics.decisions.signal_reader import SignalReader
from radixway.semantics.decisions.snapshot import SemanticSnapshot, compile_snapshot
from radixway.semantics.decisions.snapshot_store import ReloadResult, SnapshotStore
from radixway.semantics.decisions.verdict import (
    CompiledRule,
    CompiledRules,
    DecisionVerdict,
    MissingSignals,
    judge_signals,
)

__all__ = [
    "CacheDefault",
    "CompiledRule",
    "CompiledRules",
    "DecisionVerdict",
    "Detect",
    "MissingSignals",
    "ReloadResult",
    "RequestQuestion",
    "RuleBlockedError",
    "ScoreFeedback",
    "Semantic",
    "SemanticService",
    "SemanticSnapshot",
    "SignalReader",
    "SnapshotStore",
    "compile_snapshot",
    "judge_signals",
    "read_question",
]
