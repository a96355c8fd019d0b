"""How patient a subscriber is."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SubscriptionTimeouts:
    """Seconds."""

    quiet_s: float = 5.0
    """After so long without a message the publisher is asked whether that was all."""
    away_s: float = 5.0
    """A publisher that is away for longer may have lost everything."""
    silent_s: float = 5.0
    """A replay in which nothing comes for so long has failed."""
    replay_s: float = 60.0
    """The longest that a replay may take."""
    retry_s: float = 1.0
    """Pause after the first replay that failed; doubled each time."""
