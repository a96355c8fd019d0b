"""The audit log: who asked when, which rule found what where, and what was done; never a word of the text.

Append-only and chained by hashes. Users are pseudonyms in it, which can be erased.
"""

from radixway.guard.audit.chain import HashChain, HashChainError
from radixway.guard.audit.entry import EntryHasher, Fields, encode_entry
from radixway.guard.audit.head import ChainHead
from radixway.guard.audit.log import AuditLog, AuditUnavailableError
from radixway.guard.audit.pseudonyms import find_pseudonym
from radixway.guard.audit.reading import search_entries
from radixway.guard.audit.room import AuditService, build_audit, directory_of, seal_of
from radixway.guard.audit.saying import name_or_digest
from radixway.guard.audit.verify import BrokenEntry, ChainVerdict, verify_log

__all__ = [
    "AuditLog",
    "AuditService",
    "AuditUnavailableError",
    "BrokenEntry",
    "ChainHead",
    "ChainVerdict",
    "EntryHasher",
    "Fields",
    "HashChain",
    "HashChainError",
    "build_audit",
    "directory_of",
    "encode_entry",
    "find_pseudonym",
    "name_or_digest",
    "seal_of",
    "search_entries",
    "verify_log",
]
