"""Signatures of Standard Webhooks, and the secrets that they are made with.

Secrets of users' webhooks are not kept: they follow from the server's own, by HKDF.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable
from datetime import UTC, datetime

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from standardwebhooks import Webhook

from radixway.chat.server_secrets import ServerSecrets

_PREFIX = "whsec_"
_BYTES = 24, 64
"""Least and most, as the specification has it."""


def made_secret(secrets: ServerSecrets, webhook_id: str, number: int) -> bytes:
    """Derive the `number`-th secret of `webhook_id`."""
    info = f"radixway webhook {webhook_id} {number}".encode()
    derived: bytes = HKDF(SHA256(), 32, secrets.auth_salt.encode(), info).derive(secrets.auth_secret.encode())
    return derived


def told_secret(secret: bytes) -> str:
    """Encode `secret` as receivers get it."""
    return _PREFIX + base64.b64encode(secret).decode()


def read_secret(told: str) -> bytes:
    """Decode `told`, a secret as `told_secret` encodes it. Raises ValueError, without quoting it."""
    try:
        secret = base64.b64decode(told.removeprefix(_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        secret = b""
    least, most = _BYTES
    if not least <= len(secret) <= most:
        raise ValueError(f"a webhook's secret is {_PREFIX} and base64 of {least} to {most} bytes")
    return secret


def headers(delivery_id: str, timestamp: int, body: bytes, secrets: Iterable[bytes]) -> dict[str, str]:
    """Return the headers of a signed delivery, with one signature for each of `secrets`: any of them will do.

    `timestamp`: seconds since 1970. `body`: UTF-8.
    """
    at, text = datetime.fromtimestamp(timestamp, UTC), body.decode()
    return {
        "webhook-id": delivery_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": " ".join(Webhook(secret).sign(delivery_id, at, text) for secret in secrets),
        "content-type": "application/json",
    }
