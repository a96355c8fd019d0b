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
from radixway.core.pipeline.endpoints.files import BATCHES, FILES
from radixway.core.pipeline.endpoints.generation import (
    CHAT_COMPLETIONS,
    COMPLETIONS,
    GENERATE,
    SESSION_ENDPOINTS,
)
from radixway.core.pipeline.endpoints.media import (
    IMAGE_EDITS,
    IMAGE_GENERATIONS,
    SPEECH,
    TRANSCRIPTIONS,
    TRANSLATIONS,
)
from radixway.core.pipeline.endpoints.native import (
    COUNT_CHAT_TOKENS,
    COUNT_RESPONSE_TOKENS,
    COUNT_TOKENS,
    MESSAGES,
    RESPONSES,
)
from radixway.core.pipeline.endpoints.pooling import CLASSIFY, EMBEDDINGS, ENCODE, POOLING, RERANK, SCORE

_POOLED = (EMBEDDINGS, RERANK, SCORE, POOLING, CLASSIFY, ENCODE)
ENDPOINTS = EndpointRegistry(
    (CHAT_COMPLETIONS, COMPLETIONS, GENERATE, *_POOLED, SPEECH, IMAGE_GENERATIONS, *SESSION_ENDPOINTS)
)
FORM_ENDPOINTS = (TRANSCRIPTIONS, TRANSLATIONS, IMAGE_EDITS)
"""Endpoints whose bodies are forms."""
SURFACE_ENDPOINTS = (*FORM_ENDPOINTS, MESSAGES, COUNT_TOKENS, FILES, BATCHES)
"""Endpoints beside `ENDPOINTS`: forms, what is translated where no worker has it, what GET lists too."""

__all__ = [
    "BATCHES",
    "CHAT_COMPLETIONS",
    "COMPLETIONS",
    "COUNT_CHAT_TOKENS",
    "COUNT_RESPONSE_TOKENS",
    "COUNT_TOKENS",
    "ENDPOINTS",
    "FILES",
    "FORM_ENDPOINTS",
    "GENERATE",
    "MESSAGES",
    "RESPONSES",
    "SURFACE_ENDPOINTS",
    "Endpoint",
    "ModelName",
    "ParsedRequest",
    "ReplyForm",
]
