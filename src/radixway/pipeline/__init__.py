"""The road a request takes: Request, Reply, Middleware, the onion, and retry before the first byte."""

from radixway.pipeline.aborts import AbortedRequests, RunningRequest
from radixway.pipeline.completeness import IncompleteReplyError, StreamEndDetector, check_complete_reply
from radixway.pipeline.dotted import RADIX_TREE, import_class, is_asgi_middleware, resolve_slime_path
from radixway.pipeline.endpoints import (
    CHAT_COMPLETIONS,
    COMPLETIONS,
    ENDPOINTS,
    GENERATE,
    Endpoint,
    ModelName,
    ReplyForm,
)
from radixway.pipeline.errors import (
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
from radixway.pipeline.guarding import (
    AttackAssessment,
    AttackJudge,
    GuardClearance,
    GuardFindings,
    GuardUnavailableError,
    PersonalDataFinder,
    PersonalDataSpan,
)
from radixway.pipeline.in_hand import InFlightRequests
from radixway.pipeline.middleware import Middleware, Next, Pipeline, Services, TokenizerOf, load_middlewares
from radixway.pipeline.model_states import ModelState, ModelStates
from radixway.pipeline.reply import Chunks, Reply
from radixway.pipeline.request import ANY_MODEL, Request
from radixway.pipeline.retry import Retry
from radixway.pipeline.tenancy import TenantPolicy, model_pattern
from radixway.pipeline.tracing import trace_step
from radixway.pipeline.usage import MeteredChunks, TokenUsage, count_text_deltas, read_usage

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
    "Chunks",
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
    "RunningRequest",
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
