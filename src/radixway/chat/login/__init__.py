"""Logins at other servers: OAuth 2 with PKCE, and OpenID Connect by discovery.

`LoginService` sends a browser to a provider and back; an `IdentityProvider` names the user.
"""

from radixway.chat.login.logins import LoginService
from radixway.chat.login.providers import LoginError

__all__ = ["LoginError", "LoginService"]
