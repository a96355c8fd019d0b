"""The `scale.limits` section: tenants' rates and quotas for several gateways together."""

from __future__ import annotations

from pydantic import Field

from radixway.config.base import ConfigSection
from radixway.config.redis_url import RedisUrl


class SharedLimitsConfig(ConfigSection):
    """A Redis or Valkey server that all gateways use, and that keeps what it has across a restart."""

    redis: RedisUrl
    """`redis://host:6379/0`."""
    prefix: str = Field(default="radixway:limits:", max_length=128, pattern=r"^[^{}\s]*$")
    """Of its keys; gateways that do not belong together need another one."""
    timeout_s: float = Field(default=0.25, gt=0, le=10)
    """What a request waits for it at most; then limits are each gateway's alone until it answers again."""
    forget_after_s: int = Field(default=10, ge=2, le=3600)
    """A gateway that is not heard of for so long has nothing in hand any more."""
