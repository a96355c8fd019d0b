"""Secrets of the server: created at the first start, in a file that only its owner can read."""

from __future__ import annotations

import json
import os
import secrets
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ServerSecrets:
    """The secrets that tokens are made with."""

    auth_secret: str
    auth_salt: str
    root_token: str

    def __repr__(self) -> str:
        return "Secrets(…)"


def load_or_create_secrets(path: Path) -> tuple[ServerSecrets, bool]:
    """Return the secrets in the file at `path`, and whether they were created now: one of several processes
    does.

    Raises ValueError for a file that is none of ours, OSError.
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
