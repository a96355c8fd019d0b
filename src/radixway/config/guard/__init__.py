"""The `guard` section: what may not pass, in either direction, and what becomes of it."""

from radixway.config.guard.answers import AnswersSection
from radixway.config.guard.audit import AuditSection
from radixway.config.guard.jailbreak import JailbreakSection
from radixway.config.guard.pii import MaskStyle, OnError, PiiAction, PiiSection, PiiType
from radixway.config.guard.section import (
    BlockReplySection,
    GuardPolicy,
    GuardSection,
    check_policies,
    is_asked_for,
    may_be_asked_for,
)

__all__ = [
    "AnswersSection",
    "AuditSection",
    "BlockReplySection",
    "GuardPolicy",
    "GuardSection",
    "JailbreakSection",
    "MaskStyle",
    "OnError",
    "PiiAction",
    "PiiSection",
    "PiiType",
    "check_policies",
    "is_asked_for",
    "may_be_asked_for",
]
