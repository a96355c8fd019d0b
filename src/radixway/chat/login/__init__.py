"""Logins at other servers: OAuth 2 with PKCE, and OpenID Connect by discovery.

`LoginService` sends somebody to a provider and takes them back; a `IdentityProvider` says who they are.
"""

from radixway.chat.login.fetching import LoginError
from radixway.chat.login.logins import LoginService

__all__ = ["LoginError", "LoginService"]
