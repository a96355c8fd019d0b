"""Text to vectors, and the heads that read them: one pass of a small model feeds everything that judges text.

Needs radixway[semantic]; nothing here is imported until something is configured that uses it.

State, and the file that owns it:

- `service.py`: texts that wait for the encoder; a text whose caller stops awaiting leaves the queue
- `request_encodings.py`: the encodings of one request; a pass is shared by all that await it, and ends when
  none do
"""

import os

# Products as small as the heads' gain nothing by more threads, which would spin on a second core. Numpy reads
# this once, when it is first imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from radixway.semantics.encoders.base import EncoderError, TextEncoder, TextEncoding
from radixway.semantics.encoders.factory import build_service, load_encoder, start_service
from radixway.semantics.encoders.request_encodings import (
    SHARED_CHARACTERS,
    EncodeOnceMiddleware,
    EncoderTimeoutError,
    RequestEncodings,
    encode_once,
)
from radixway.semantics.encoders.sentence_encoder import SentenceEncoder
from radixway.semantics.encoders.service import EncoderBusyError, EncoderClosedError, EncoderService

__all__ = [
    "SHARED_CHARACTERS",
    "EncodeOnceMiddleware",
    "EncoderBusyError",
    "EncoderClosedError",
    "EncoderError",
    "EncoderService",
    "EncoderTimeoutError",
    "RequestEncodings",
    "SentenceEncoder",
    "TextEncoder",
    "TextEncoding",
    "build_service",
    "encode_once",
    "load_encoder",
    "start_service",
]
