"""`radixway top`: a running gateway in a terminal, as numbers that move.

It reads the gateway's public HTTP API and nothing else: `/metrics/prometheus`, `/list_workers`, `/requests`.
The screen needs the extra `console` (Textual); one frame as text or JSON needs nothing.
"""

from radixway.top.frame import as_json, as_text
from radixway.top.gateway import Look, Reader, Refusal, SeenRequest, SeenWorker
from radixway.top.view import View

__all__ = ["Look", "Reader", "Refusal", "SeenRequest", "SeenWorker", "View", "as_json", "as_text"]
