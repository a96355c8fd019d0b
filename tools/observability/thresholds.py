"""All thresholds of the alerts. Make them your own, and run `python tools/observability_files.py`."""

UNDERSTANDING_P99_S = 0.05
"""The semantic layer: from a question to the decision on it."""
ROUTING_P99_S = 0.02
"""From there to the choice of a worker that has room."""
FIRST_BYTE_P99_S = 10.0
"""From a request's arrival to its first byte."""
ANSWER_P99_S = 120.0
"""End to end, the last byte included. Long answers take long: mind your models' speed."""

SEMANTIC_HITS = 0.05
"""Share of the questions that the semantic cache was asked."""
PREFIX_HITS = 0.1
"""Share of prompts' tokens that workers had in their KV caches."""
PREDICTION_ERROR = 0.25
"""By how much the share expected may lie above the share that was there."""

BLOCKED = 0.1
"""Share of requests that the guard blocks."""
ERRORS = 0.01
"""Share of requests that end with a status of 500 and more."""
RETRIED = 0.05
"""Tries again, by requests."""
BROKEN = 0.01
"""Streams cut after their first byte, by requests."""
REFUSED = 0.05
"""Share of requests that are refused because workers are busy."""
LEAST_REQUESTS = 50
"""Shares of fewer requests, in the time looked at, say nothing."""

QUEUED = 50
"""Requests that wait in one gateway."""
GPU_LOW, GPU_HIGH = 0.2, 0.95
"""Mean utilisation over half an hour."""

CHAT_WAITS_S = 60
"""Age of the oldest chat message for which no worker has been found."""
CHAT_FAILURES = 0.05
"""Share of chats' answers that workers aborted or that took too long."""
