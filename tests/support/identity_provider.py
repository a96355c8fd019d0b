"""A provider of logins with real keys: OpenID Connect, and OAuth 2 with a page about users."""

from __future__ import annotations

import base64
import hashlib
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from aiohttp import web
from aiohttp.test_utils import TestServer
from joserfc import jwt
from joserfc.jwk import ECKey, KeySet, RSAKey

CLIENT, SECRET = "radixway", "s3cret: of the client/"


@dataclass
class IdentityProvider:
    """Says who is at its browser: `user`."""

    url: str = ""
    user: dict[str, Any] = field(default_factory=lambda: {"sub": "42", "name": "Eve"})
    page: dict[str, Any] = field(default_factory=lambda: {"id": "42", "username": "Eve"})
    """What the page about users tells."""
    spoils: dict[str, Any] = field(default_factory=dict)
    """Claims that are not as they should be; None: left out."""
    document: dict[str, Any] = field(default_factory=dict)
    """Of the discovery document, what differs."""
    asked: list[str] = field(default_factory=list)
    """Paths, in order."""
    key: Any = field(default_factory=lambda: ECKey.generate_key("P-256", {"kid": "1"}))
    algorithm: str = "ES256"
    down: bool = False

    def __post_init__(self) -> None:
        self.shown = [self.key]
        """The keys that it publishes."""
        self._given: dict[str, dict[str, str]] = {}
        """Codes, and what was asked with."""

    def rotate(self) -> None:
        """It signs with another key, which it publishes."""
        self.key = RSAKey.generate_key(2048, {"kid": str(len(self.shown) + 1)})
        self.algorithm = "RS256"
        self.shown = [self.key]

    def visit(self, url: str) -> dict[str, str]:
        """Somebody's browser is sent there and logs in; what it brings back to our callback."""
        parts = urlsplit(url)
        assert url.startswith(f"{self.url}/authorize?"), url
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        assert query["response_type"] == "code" and query["client_id"] == CLIENT
        assert query["code_challenge_method"] == "S256"
        code = f"code-{len(self._given)}"
        self._given[code] = query
        return {"code": code, "state": query["state"]}

    async def discovery(self, request: web.Request) -> web.Response:
        told = {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "jwks_uri": f"{self.url}/keys",
        }
        return web.json_response(told | self.document)

    async def keys(self, request: web.Request) -> web.Response:
        told = KeySet(self.shown).as_dict(private=False)
        told["keys"].append({"kty": "of the future", "kid": "9"})
        return web.json_response(told)

    async def token(self, request: web.Request) -> web.Response:
        form = await request.post()
        asked = self._given.pop(str(form["code"]), None)
        verifier = hashlib.sha256(str(form.get("code_verifier", "")).encode()).digest()
        proof = base64.urlsafe_b64encode(verifier).rstrip(b"=").decode()
        is_client = self._client(request, form) == (CLIENT, SECRET)
        if asked is None or not is_client or proof != asked["code_challenge"]:
            return web.json_response({"error": "invalid_grant"}, status=400)
        if form["redirect_uri"] != asked["redirect_uri"]:
            return web.json_response({"error": "invalid_grant"}, status=400)
        answer = {"access_token": "token-of-the-provider", "token_type": "bearer"}
        if "openid" in asked["scope"].split():
            answer["id_token"] = self.id_token(asked.get("nonce"))
        return web.json_response(answer)

    def id_token(self, nonce: str | None) -> str:
        now = int(time.time())
        claims = {"iss": self.url, "aud": CLIENT, "iat": now, "exp": now + 60, "nonce": nonce}
        claims = claims | self.user | self.spoils
        claims = {name: value for name, value in claims.items() if value is not None}
        header = {"alg": self.algorithm, "kid": self.key.kid}
        return jwt.encode(header, claims, self.key, algorithms=[self.algorithm])

    async def about(self, request: web.Request) -> web.Response:
        if request.headers.get("Authorization") != "Bearer token-of-the-provider":
            return web.json_response({}, status=401)
        return web.json_response(self.page)

    def oauth(self) -> dict[str, str]:
        """Configuration of a provider with a page about users."""
        paths = {"authorize_url": "authorize", "token_url": "token", "user_url": "user"}
        urls = {name: f"{self.url}/{path}" for name, path in paths.items()}
        return {"client_id": CLIENT, "client_secret": SECRET} | urls

    def oidc(self, **more: Any) -> dict[str, Any]:
        """Configuration of a provider by its issuer."""
        return {"client_id": CLIENT, "client_secret": SECRET, "issuer": self.url} | more

    def _client(self, request: web.Request, form: Any) -> tuple[str, str]:
        given = request.headers.get("Authorization")
        if given is None:
            return str(form.get("client_id")), str(form.get("client_secret"))
        name, _, secret = base64.b64decode(given.split()[1]).decode().partition(":")
        return unquote(name), unquote(secret)


@asynccontextmanager
async def identity_provider() -> AsyncIterator[IdentityProvider]:
    """One that answers while this holds."""
    provider = IdentityProvider()

    @web.middleware
    async def note(request: web.Request, handler: Any) -> web.StreamResponse:
        provider.asked.append(request.path)
        if provider.down:
            return web.Response(status=503)
        return await handler(request)

    app = web.Application(middlewares=[note])
    app.router.add_get("/.well-known/openid-configuration", provider.discovery)
    app.router.add_get("/keys", provider.keys)
    app.router.add_post("/token", provider.token)
    app.router.add_get("/user", provider.about)
    async with TestServer(app, host="127.0.0.1") as server:
        provider.url = str(server.make_url("")).rstrip("/")
        yield provider
