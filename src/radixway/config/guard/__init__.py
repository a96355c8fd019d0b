"""The `guard` section: what may not pass, in either direction, and what becomes of it."""

from radixway.config.guard.answers import AnswersConfig
from radixway.config.guard.audit import AuditConfig
from radixway.config.guard.jailbreak import JailbreakConfig
from radixway.config.guard.pii import MaskStyle, OnError, PiiAction, PiiConfig, PiiType
from radixway.config.guard.section import (
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
