"""vLLM Semantic Router's classification API, for texts that want no answer."""

from radixway.api.classification.lazy_service import LazyClassificationService
from radixway.api.classification.routes import classification_routes

__all__ = ["LazyClassificationService", "classification_routes"]
