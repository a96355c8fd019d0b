"""Logins at other servers: OAuth 2 with PKCE, and OpenID Connect by discovery.

`LoginService` sends somebody to a provider and takes them back; a `IdentityProvider` says who they are.
"""

from radixway.chat.login.logins import LoginService
from radixway.chat.login.providers import LoginError

__all__ = ["LoginError", "LoginService"]
