"""The `guard` section: what may not pass, in either direction, and what becomes of it."""

from radixway.config.guard.answers import AnswersSection
from radixway.config.guard.audit import AuditSection
from radixway.config.guard.jailbreak import JailbreakSection
from radixway.config.guard.pii import PiiAction, PiiSection
from radixway.config.guard.section import BlockReplySection, GuardPolicy, GuardSection

__all__ = [
    "AnswersSection",
    "AuditSection",
    "BlockReplySection",
    "GuardPolicy",
    "GuardSection",
    "JailbreakSection",
    "PiiAction",
    "PiiSection",
]
