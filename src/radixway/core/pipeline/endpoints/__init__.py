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
from radixway.core.pipeline.endpoints.pooling import EMBEDDINGS, RERANK, SCORE

ENDPOINTS = EndpointRegistry(
    (CHAT_COMPLETIONS, COMPLETIONS, GENERATE, EMBEDDINGS, RERANK, SCORE, *SESSION_ENDPOINTS)
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
