"""The `guard` section: what may not pass, in either direction, and what becomes of it."""

from radixway.core.config.guard.answer_rules import AnswersConfig
from radixway.core.config.guard.input_rules import (
    JailbreakConfig,
    MaskStyle,
    OnError,
    PiiAction,
    PiiConfig,
    PiiType,
)
from radixway.core.config.guard.section import (
    AuditConfig,
    BlockReplyConfig,
    GuardConfig,
    GuardPolicy,
    check_policies,
    is_guard_ever_requested,
    is_guard_requested,
)

__all__ = [
    "AnswersConfig",
    "AuditConfig",
    "BlockReplyConfig",
    "GuardConfig",
    "GuardPolicy",
    "JailbreakConfig",
    "MaskStyle",
    "OnError",
    "PiiAction",
    "PiiConfig",
    "PiiType",
    "check_policies",
    "is_guard_ever_requested",
    "is_guard_requested",
]
