"""What a text is, for whoever wants no answer to it: domain, decision, personal data, attacks.

The same signals, rules and models that serve requests; where a model is absent, `Unavailable` names it.
"""

from radixway.semantic.classification.answers import UnknownTypes
from radixway.semantic.classification.intent import Intent, read_intent
from radixway.semantic.classification.options import Options, Task
from radixway.semantic.classification.room import ClassificationRoom, Unavailable
from radixway.semantic.classification.tasks import Tasks
from radixway.semantic.classification.vectors import Vectors

__all__ = [
    "ClassificationRoom",
    "Intent",
    "Options",
    "Task",
    "Tasks",
    "Unavailable",
    "UnknownTypes",
    "Vectors",
    "read_intent",
]
