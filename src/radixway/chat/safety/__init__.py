"""Safety of questions: each is judged, and if need be rewritten, before any worker sees it; levels 0 to 3.

Nothing of the database is imported here. A `SafetyJudge` is a service over HTTP, or the guard.
"""

from radixway.chat.safety.safety_screen import (
    SafetyJudge,
    SafetyScreen,
    SafetyUnavailableError,
    ScreenedQuestion,
)
from radixway.chat.safety.safety_service import SafetyService
from radixway.chat.safety.safety_verdict import HARMLESS, SafetyVerdict, label_findings, parse_verdict
from radixway.chat.safety.shown_threads import (
    BLOCKED,
    REFUSED,
    build_worker_thread,
    drop_withheld,
    find_safety_prefix,
    has_words,
    to_shown_thread,
)

__all__ = [
    "BLOCKED",
    "HARMLESS",
    "REFUSED",
    "SafetyJudge",
    "SafetyScreen",
    "SafetyService",
    "SafetyUnavailableError",
    "SafetyVerdict",
    "ScreenedQuestion",
    "build_worker_thread",
    "drop_withheld",
    "find_safety_prefix",
    "has_words",
    "label_findings",
    "parse_verdict",
    "to_shown_thread",
]
