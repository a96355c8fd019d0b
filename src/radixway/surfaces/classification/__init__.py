"""What a text is, over HTTP: vLLM Semantic Router's classification API, for texts that want no answer.

Nothing of the encoders is imported before the first question.
"""

from radixway.surfaces.classification.classify import classify_routes
from radixway.surfaces.classification.opening import LazyRoom
from radixway.surfaces.classification.prompts import prompt_routes
from radixway.surfaces.classification.vectors import vector_routes

__all__ = ["LazyRoom", "classify_routes", "prompt_routes", "vector_routes"]
