"""What a text is, for whoever wants no answer to it: domain, decision, personal data, attacks.

The same signals, rules and models that serve requests; where a model is absent, `ClassifierUnavailableError`
names it.
"""

from radixway.semantic.classification.answers import UnknownTypesError
from radixway.semantic.classification.intent import TextIntent, read_intent
from radixway.semantic.classification.options import ClassificationOptions, Task
from radixway.semantic.classification.room import ClassificationService, ClassifierUnavailableError
from radixway.semantic.classification.tasks import ClassificationTasks
from radixway.semantic.classification.vectors import TextSimilarity

__all__ = [
    "ClassificationOptions",
    "ClassificationService",
    "ClassificationTasks",
    "ClassifierUnavailableError",
    "Task",
    "TextIntent",
    "TextSimilarity",
    "UnknownTypesError",
    "read_intent",
]
