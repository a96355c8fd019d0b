"""What a request means: signals, and the decision they add up to.

Which model answers it, under which system prompt, thinking or not, with which tools.
"""

from radixway.semantic.build import SemanticService
from radixway.semantic.cache_rules import CacheDefault
from radixway.semantic.decide import (
    CompiledRule,
    CompiledRules,
    DecisionVerdict,
    MissingSignals,
    judge_signals,
)
from radixway.semantic.detect import Detect, RuleBlockedError
from radixway.semantic.holder import ReloadResult, SnapshotStore
from radixway.semantic.middleware import Semantic
from radixway.semantic.question import RequestQuestion, read_question
from radixway.semantic.reading import SignalReader
from radixway.semantic.scores import ScoreFeedback
from radixway.semantic.snapshot import SemanticSnapshot, compile_snapshot

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
