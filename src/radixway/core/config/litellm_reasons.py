"""Why settings of LiteLLM are not taken, and what there is in their place."""

from collections.abc import Mapping

REASONS: Mapping[str, str] = {
    "rpm": "a provider's own limits are found by its answers (429); limits of callers stand under tenants",
    "tpm": "a provider's own limits are found by its answers (429); limits of callers stand under tenants",
    "context_window_fallbacks": "no model is chosen by the length of its prompt after a refusal",
    "content_policy_fallbacks": "no model is chosen after a refusal of the content",
    "default_fallbacks": "fallbacks are by model: routing.fallbacks",
    "database_url": "its users, teams and keys are not read: create them anew (docs/tenants.md)",
    "environment_variables": "set them in the environment",
    "cache": "the semantic cache finds answers by meaning: docs/semantic.md",
    "cache_params": "the semantic cache finds answers by meaning: docs/semantic.md",
    "success_callback": "metrics, /explain and traces are built in: docs/observability.md",
    "failure_callback": "metrics, /explain and traces are built in: docs/observability.md",
    "callbacks": "metrics, /explain and traces are built in: docs/observability.md",
    "guardrails": "the guard has rules of its own: docs/guard.md",
    "redis_host": "state is shared between gateways by scale.sync and scale.limits: docs/scale.md",
    "redis_port": "state is shared between gateways by scale.sync and scale.limits: docs/scale.md",
    "redis_password": "state is shared between gateways by scale.sync and scale.limits: docs/scale.md",
    "redis_url": "state is shared between gateways by scale.sync and scale.limits: docs/scale.md",
    "timeout": "time limits are one for all requests: gateway.request_timeout_s",
    "stream_timeout": "time limits are one for all requests: gateway.request_timeout_s",
    "max_retries": "retries are one number for all requests: pipeline.retry.attempts",
}
