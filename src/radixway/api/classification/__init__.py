"""What a text is, over HTTP: vLLM Semantic Router's classification API, for texts that want no answer.

Nothing of the encoders is imported before the first question.
"""

from radixway.api.classification.lazy_service import LazyClassificationService
from radixway.api.classification.routes import classification_routes

__all__ = ["LazyClassificationService", "classification_routes"]
