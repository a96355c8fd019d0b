"""The audit log: who asked when, which rule found what where, and what was done; never a word of the text.

Append-only and chained by hashes. Users are pseudonyms in it, which can be erased.
"""

from radixway.semantics.guard.audit.entry import EntryHasher, Fields, encode_entry, name_or_digest
from radixway.semantics.guard.audit.hash_chain import ChainHead, HashChain, HashChainError
from radixway.semantics.guard.audit.log import AuditLog, AuditUnavailableError
from radixway.semantics.guard.audit.pseudonyms import find_pseudonym
from radixway.semantics.guard.audit.service import AuditService, build_audit, directory_of, seal_of
from radixway.semantics.guard.audit.verification import BrokenEntry, ChainVerdict, search_entries, verify_log

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
