"""Logins at other servers: OAuth 2 with PKCE, and OpenID Connect by discovery.

`Logins` sends somebody to a provider and takes them back; a `Provider` says who they are.
"""

from radixway.chat.login.fetching import LoginFailed
from radixway.chat.login.logins import Logins

__all__ = ["LoginFailed", "Logins"]
