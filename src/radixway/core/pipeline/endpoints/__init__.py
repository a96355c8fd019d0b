"""The API endpoints, each declared once. To add one, write its body schema and `Endpoint`, and name it here.

Begin with `base.py`. `ENDPOINTS` is what the gateway serves, guards, meters and describes in OpenAPI.
"""

from radixway.core.pipeline.endpoints.base import (
    Endpoint,
    EndpointRegistry,
    ModelName,
    ParsedRequest,
    ReplyForm,
)
from radixway.core.pipeline.endpoints.generation import (
    CHAT_COMPLETIONS,
    COMPLETIONS,
    GENERATE,
    SESSION_ENDPOINTS,
)
from radixway.core.pipeline.endpoints.media import IMAGE_GENERATIONS, SPEECH
from radixway.core.pipeline.endpoints.pooling import CLASSIFY, EMBEDDINGS, ENCODE, POOLING, RERANK, SCORE

_POOLED = (EMBEDDINGS, RERANK, SCORE, POOLING, CLASSIFY, ENCODE)
ENDPOINTS = EndpointRegistry(
    (CHAT_COMPLETIONS, COMPLETIONS, GENERATE, *_POOLED, SPEECH, IMAGE_GENERATIONS, *SESSION_ENDPOINTS)
)

__all__ = [
    "CHAT_COMPLETIONS",
    "COMPLETIONS",
    "ENDPOINTS",
    "GENERATE",
    "Endpoint",
    "ModelName",
    "ParsedRequest",
    "ReplyForm",
]
