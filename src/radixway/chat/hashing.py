"""What the database keeps of a secret."""

from __future__ import annotations

import hashlib


def hashed(secret: str) -> str:
    """64 hex digits, by which a secret is found again.

    Ours have 256 random bits: nobody guesses what a plain hash is of, as they would with a password.
    """
    return hashlib.sha256(secret.encode()).hexdigest()
