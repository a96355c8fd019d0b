"""Questions are judged before anybody answers them, pushed or pulled, and made safe: levels 0 to 3.

Nothing of the database is imported here. Who judges is a `Judge`: a service over HTTP, or the guard.
"""

from radixway.chat.safety.findings import verdict_on
from radixway.chat.safety.screen import Judge, Screen, Screened, Unjudged
from radixway.chat.safety.service import SafetyService
from radixway.chat.safety.threads import (
    BLOCKED,
    REFUSED,
    as_shown,
    build_worker_thread,
    has_words,
    opening_of,
    without_withheld,
)
from radixway.chat.safety.verdict import HARMLESS, Verdict, read_verdict

__all__ = [
    "BLOCKED",
    "HARMLESS",
    "REFUSED",
    "Judge",
    "SafetyService",
    "Screen",
    "Screened",
    "Unjudged",
    "Verdict",
    "as_shown",
    "build_worker_thread",
    "has_words",
    "opening_of",
    "read_verdict",
    "verdict_on",
    "without_withheld",
]
