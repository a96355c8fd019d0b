"""The pipeline: Request, Reply, Middleware, and retries before the first byte. Start with `middleware.py`.

State, and the file that owns it:

- `in_flight.py`: requests in flight by their clients' ids, and those to be aborted; from the body read to
  the end of the answer, on every way out
"""

from radixway.core.pipeline.completeness import IncompleteReplyError, StreamEndDetector, check_complete_reply
from radixway.core.pipeline.contexts import (
    Caller,
    DataPlane,
    RoutingContext,
    SemanticContext,
    TenantPolicy,
    model_pattern,
)
from radixway.core.pipeline.endpoints import (
    CHAT_COMPLETIONS,
    COMPLETIONS,
    ENDPOINTS,
    GENERATE,
    Endpoint,
    ModelName,
    ReplyForm,
)
from radixway.core.pipeline.errors import (
    BadRequest,
    DeadlineExceededError,
    FailureReason,
    ForbiddenError,
    GatewayError,
    LimitReachedError,
    ModelNotServedError,
    NoWorkersError,
    OverloadedError,
    RefusalReason,
    StreamBrokenError,
    UnauthorizedError,
    WeightsTooOldError,
    WorkerFailedError,
    WorkerNotFoundError,
)
from radixway.core.pipeline.in_flight import AbortedRequests, InFlightRequests, RunningRequest
from radixway.core.pipeline.interfaces import (
    AttackAssessment,
    AttackJudge,
    GuardClearance,
    GuardFindings,
    GuardUnavailableError,
    ModelState,
    ModelStates,
    PersonalDataFinder,
    PersonalDataSpan,
)
from radixway.core.pipeline.middleware import (
    RADIX_TREE,
    Middleware,
    Next,
    Pipeline,
    Services,
    TokenizerOf,
    import_class,
    is_asgi_middleware,
    load_middlewares,
    resolve_slime_path,
    trace_step,
)
from radixway.core.pipeline.reply import Chunks, Reply, TokenUsage
from radixway.core.pipeline.request import ANY_MODEL, Request
from radixway.core.pipeline.retry import Retry
from radixway.core.pipeline.usage import MeteredChunks, count_text_deltas, read_usage

__all__ = [
    "ANY_MODEL",
    "CHAT_COMPLETIONS",
    "COMPLETIONS",
    "ENDPOINTS",
    "GENERATE",
    "RADIX_TREE",
    "AbortedRequests",
    "AttackAssessment",
    "AttackJudge",
    "BadRequest",
    "Caller",
    "Chunks",
    "DataPlane",
    "DeadlineExceededError",
    "Endpoint",
    "FailureReason",
    "ForbiddenError",
    "GatewayError",
    "GuardClearance",
    "GuardFindings",
    "GuardUnavailableError",
    "InFlightRequests",
    "IncompleteReplyError",
    "LimitReachedError",
    "MeteredChunks",
    "Middleware",
    "ModelName",
    "ModelNotServedError",
    "ModelState",
    "ModelStates",
    "Next",
    "NoWorkersError",
    "OverloadedError",
    "PersonalDataFinder",
    "PersonalDataSpan",
    "Pipeline",
    "RefusalReason",
    "Reply",
    "ReplyForm",
    "Request",
    "Retry",
    "RoutingContext",
    "RunningRequest",
    "SemanticContext",
    "Services",
    "StreamBrokenError",
    "StreamEndDetector",
    "TenantPolicy",
    "TokenUsage",
    "TokenizerOf",
    "UnauthorizedError",
    "WeightsTooOldError",
    "WorkerFailedError",
    "WorkerNotFoundError",
    "check_complete_reply",
    "count_text_deltas",
    "import_class",
    "is_asgi_middleware",
    "load_middlewares",
    "model_pattern",
    "read_usage",
    "resolve_slime_path",
    "trace_step",
]
