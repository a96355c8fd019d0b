"""Secrets of the server: created at the first start, in a file that only its owner can read."""

import json
import os
import secrets
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from joserfc import jwe
from joserfc.errors import JoseError
from joserfc.jwk import OctKey

_HEADER = {"alg": "dir", "enc": "A256GCM"}


@dataclass(frozen=True, slots=True)
class ServerSecrets:
    """The secrets that tokens are made with."""

    auth_secret: str
    auth_salt: str
    root_token: str

    def derive(self, info: bytes) -> bytes:
        """Return 32 bytes for the use `info`, by HKDF: they do not reveal the secret."""
        derived: bytes = HKDF(SHA256(), 32, self.auth_salt.encode(), info).derive(self.auth_secret.encode())
        return derived

    def __repr__(self) -> str:
        return "Secrets(…)"


class ClaimsCipher:
    """Encrypts claims as JWE (`dir` with `A256GCM`), and reads them again."""

    def __init__(self, secrets: ServerSecrets, info: bytes) -> None:
        """`info`: of the key, see `ServerSecrets.derive`."""
        self._key = OctKey.import_key(secrets.derive(info))

    def encrypt(self, claims: dict[str, Any]) -> str:
        """Return `claims` as a compact JWE."""
        return jwe.encrypt_compact(_HEADER, json.dumps(claims).encode(), self._key)

    def decrypt(self, token: str) -> dict[str, Any]:
        """Return the claims in `token`. Raises ValueError: it was not made here."""
        try:
            claims = json.loads(jwe.decrypt_compact(token, self._key).plaintext or b"")
        except JoseError as error:
            raise ValueError("not a token of this server") from error
        if not isinstance(claims, dict):
            raise ValueError("not a token of this server")
        return claims


def load_or_create_secrets(path: Path) -> tuple[ServerSecrets, bool]:
    """Return the secrets in the file at `path`, and whether this process created them now.

    Raises ValueError for another kind of file, OSError.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    made = ServerSecrets(*(secrets.token_urlsafe(32) for _ in range(3)))
    draft = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        json.dump(asdict(made), file, indent=1)
    try:
        os.link(draft, path)  # fails where the file is there already, in one step
    except FileExistsError:
        return _load_secrets(path), False
    finally:
        draft.unlink()
    return made, True


def _load_secrets(path: Path) -> ServerSecrets:
    try:
        return ServerSecrets(**json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path} does not hold the secrets of chats") from error
