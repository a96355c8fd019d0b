"""The road a request takes: Request, Reply, Middleware, the onion, and retry before the first byte."""

from radixway.pipeline.aborts import AbortedRequests, RunningRequest
from radixway.pipeline.completeness import IncompleteAnswerError, StreamEnd, check_whole_reply
from radixway.pipeline.dotted import RADIX_TREE, find_class, own_path, wraps_apps
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
    DeadlineExceeded,
    FailureReason,
    Forbidden,
    GatewayError,
    LimitReached,
    ModelNotFound,
    NoWorkers,
    Overloaded,
    RefusalReason,
    StreamBroken,
    Unauthorized,
    WeightsTooOld,
    WorkerFailed,
    WorkerNotFound,
)
from radixway.pipeline.guarding import (
    Attack,
    AttackJudge,
    Clearance,
    GuardFindings,
    GuardUnavailable,
    PersonalData,
    PersonalDataFinder,
)
from radixway.pipeline.in_hand import InHand
from radixway.pipeline.middleware import Middleware, Next, Pipeline, Services, TokenizerOf, load_middlewares
from radixway.pipeline.model_states import ModelState, ModelStates
from radixway.pipeline.reply import Chunks, Reply
from radixway.pipeline.request import ANY_MODEL, Request
from radixway.pipeline.retry import Retry
from radixway.pipeline.tenancy import Tenancy, model_pattern
from radixway.pipeline.tracing import traced
from radixway.pipeline.usage import Metered, Used, count_texts, used_of

__all__ = [
    "ANY_MODEL",
    "CHAT_COMPLETIONS",
    "COMPLETIONS",
    "ENDPOINTS",
    "GENERATE",
    "RADIX_TREE",
    "AbortedRequests",
    "Attack",
    "AttackJudge",
    "BadRequest",
    "Chunks",
    "Clearance",
    "DeadlineExceeded",
    "Endpoint",
    "FailureReason",
    "Forbidden",
    "GatewayError",
    "GuardFindings",
    "GuardUnavailable",
    "InHand",
    "IncompleteAnswerError",
    "LimitReached",
    "Metered",
    "Middleware",
    "ModelName",
    "ModelNotFound",
    "ModelState",
    "ModelStates",
    "Next",
    "NoWorkers",
    "Overloaded",
    "PersonalData",
    "PersonalDataFinder",
    "Pipeline",
    "RefusalReason",
    "Reply",
    "ReplyForm",
    "Request",
    "Retry",
    "RunningRequest",
    "Services",
    "StreamBroken",
    "StreamEnd",
    "Tenancy",
    "TokenizerOf",
    "Unauthorized",
    "Used",
    "WeightsTooOld",
    "WorkerFailed",
    "WorkerNotFound",
    "check_whole_reply",
    "count_texts",
    "find_class",
    "load_middlewares",
    "model_pattern",
    "own_path",
    "traced",
    "used_of",
    "wraps_apps",
]
