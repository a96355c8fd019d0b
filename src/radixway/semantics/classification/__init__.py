"""Classification of texts without answering them: domain, decision, personal data, attacks.

The same signals, rules and models that serve requests; where a model is absent, `ClassifierUnavailableError`
names it.
"""

from radixway.semantics.classification.answers import ClassificationOptions, Task, UnknownTypesError
from radixway.semantics.classification.intent import TextIntent
from radixway.semantics.classification.service import ClassificationService, ClassifierUnavailableError
from radixway.semantics.classification.tasks import ClassificationTasks, TextSimilarity

__all__ = [
    "ClassificationOptions",
    "ClassificationService",
    "ClassificationTasks",
    "ClassifierUnavailableError",
    "Task",
    "TextIntent",
    "TextSimilarity",
    "UnknownTypesError",
]
