"""What a request means: signals, and the decision they add up to.

Which model answers it, under which system prompt, thinking or not, with which tools.
"""

from radixway.semantic.build import SemanticRoom
from radixway.semantic.cache_rules import CacheDefault
from radixway.semantic.decide import Missing, Rule, Rules, Verdict, judge
from radixway.semantic.detect import Blocked, Detect
from radixway.semantic.holder import Reload, Snapshots
from radixway.semantic.middleware import Semantic
from radixway.semantic.question import Question, read_question
from radixway.semantic.reading import Reader
from radixway.semantic.scores import Feedback
from radixway.semantic.snapshot import Snapshot, take_snapshot

__all__ = [
    "Blocked",
    "CacheDefault",
    "Detect",
    "Feedback",
    "Missing",
    "Question",
    "Reader",
    "Reload",
    "Rule",
    "Rules",
    "Semantic",
    "SemanticRoom",
    "Snapshot",
    "Snapshots",
    "Verdict",
    "judge",
    "read_question",
    "take_snapshot",
]
