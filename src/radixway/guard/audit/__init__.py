"""The audit log: who asked when, which rule found what where, and what was done; never a word of the text.

Append-only and chained by hashes. Users are pseudonyms in it, which can be erased.
"""

from radixway.guard.audit.chain import Chain, ChainBroken
from radixway.guard.audit.entry import Fields, Seal, canonical
from radixway.guard.audit.head import Head
from radixway.guard.audit.log import AuditLog, AuditUnavailable
from radixway.guard.audit.pseudonyms import find_pseudonym
from radixway.guard.audit.reading import entries
from radixway.guard.audit.room import AuditRoom, build_audit, directory_of, seal_of
from radixway.guard.audit.saying import name_or_digest
from radixway.guard.audit.verify import Broken, Verdict, verify

__all__ = [
    "AuditLog",
    "AuditRoom",
    "AuditUnavailable",
    "Broken",
    "Chain",
    "ChainBroken",
    "Fields",
    "Head",
    "Seal",
    "Verdict",
    "build_audit",
    "canonical",
    "directory_of",
    "entries",
    "find_pseudonym",
    "name_or_digest",
    "seal_of",
    "verify",
]
