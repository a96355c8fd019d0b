"""API keys: whose they are, and what they allow. Kept and compared as digests only."""

import os
import re
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b, blake2s, sha256
from types import MappingProxyType

from radixway.core.config import ConfigError
from radixway.core.config.tenants import KeyConfig, TenantsConfig
from radixway.core.pipeline import UnauthorizedError
from radixway.core.tenants.budgets import KeyAccess


@dataclass(frozen=True, slots=True)
class KnownKey:
    """The identity that a key stands for."""

    tenant: str
    user: str | None
    scopes: frozenset[str]
    models: re.Pattern[str] | None = None
    """Pattern of the models that it may use, of those of its tenant; None: all."""
    access: KeyAccess | None = None
    """What it may do, and its budgets, where it was made at run time."""
    may_use_models: bool = field(init=False)
    """Whether models answer it."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "may_use_models", not self.scopes <= {"worker", "metrics"})

    def is_usable(self, now: float) -> bool:
        """Return whether it has neither expired nor been blocked; `now` is seconds since the epoch."""
        return self.access is None or self.access.is_usable(now)


_KEY_HEADERS = frozenset({b"authorization", b"x-api-key"})
_MAX_SEEN = 16_384
"""Headers with known keys that are remembered; spaces make many of one key."""


class KeyRing:
    """Finds a key in a time that does not depend on how much of it is right.

    Keys are looked up by a digest under a secret of this process's own, so that callers cannot know or steer
    what their guess is compared with. So are the headers that known keys came in, which saves reading them
    and the SHA-256 that configured keys are known by.
    """

    def __init__(self, section: TenantsConfig) -> None:
        """Raises ConfigError: a key that is not where it should be, or is two tenants'."""
        self._keyed = blake2b(key=secrets.token_bytes(32), digest_size=32)
        self._known: dict[bytes, KnownKey] = {}
        self._seen: dict[bytes, KnownKey] = {}
        """By the digest of a whole header that had a known key, under the secret of the header's name."""
        self._stored: Mapping[bytes, KnownKey] = {}
        self._stored_by_id: dict[str, KnownKey] = {}
        self.teams: Mapping[str, KnownKey] = {}
        """Who pays where no key but a proxy or a chat names the tenant: teams of the store, by name."""
        self._pepper = b""
        self._needs_stored = False
        self._secrets = {name: secrets.token_bytes(32) for name in _KEY_HEADERS}
        for name, tenant in section.named.items():
            for at, key in enumerate(tenant.keys):
                place = f"tenants.{name}.keys.{at}"
                digest = self._digest(_sha256_of(key, place))
                if digest in self._known:
                    raise ConfigError(
                        f"{place}: the same key stands under {self._known[digest].tenant} already"
                    )
                self._known[digest] = KnownKey(name, key.user, frozenset(key.scopes))

    def __len__(self) -> int:
        return len(self._known) + len(self._stored)

    @property
    def needs_keys(self) -> bool:
        """Whether calls need a key: there are keys, or there were some in the store."""
        return bool(self._known) or self._needs_stored

    def set_stored_keys(
        self,
        keys: Mapping[bytes, KnownKey],
        pepper: bytes,
        teams: Mapping[str, KnownKey] = MappingProxyType({}),
        *,
        needs_keys: bool,
    ) -> None:
        """Take up the keys of a store, by their `digest_key` with its secret `pepper`, and no others of it.

        A key of the configuration goes before one of the store. `teams`: by name, as if each were a key.
        `needs_keys`: calls need a key from now on.
        """
        self._stored, self._pepper, self._needs_stored = keys, pepper, needs_keys
        self._stored_by_id = {}
        for known in keys.values():
            if known.access is not None:
                self._stored_by_id.setdefault(known.access.id, known)  # a key before the one that it replaced
        self.teams = teams
        self._seen.clear()

    def find_payer(self, tenant: str, key_id: str | None) -> KnownKey | None:
        """Return the stored key `key_id`, without one the team `tenant`; None where that is no team.

        Raises UnauthorizedError: the key is gone.
        """
        if key_id is None:
            return self.teams.get(tenant)
        known = self._stored_by_id.get(key_id)
        if known is None:
            raise UnauthorizedError("the key that asked for this is deleted", code="invalid_api_key")
        return known

    def name_tenant(self, key: KnownKey, tenant: str) -> KnownKey:
        """Return who asks where `key`, a proxy's, names `tenant`: both pay, and allow what both may."""
        team = self.teams.get(tenant)
        access = None if team is None else team.access
        if key.access is not None:
            access = key.access.naming(tenant, access)
        return KnownKey(tenant, None, key.scopes, key.models, access)

    def find_key(self, headers: Iterable[tuple[bytes, bytes]]) -> KnownKey | None:
        """Find the key in `headers`: `Authorization: Bearer` or `x-api-key`; None without a known one."""
        for header in headers:
            secret = self._secrets.get(header[0])
            if secret is not None:
                whole = blake2s(
                    secret + header[1]
                ).digest()  # keyed by hand: half the price of a copied state
                known = self._seen.get(whole) or self._read_header(header, whole)
                if known is not None:
                    return known
        return None

    def _read_header(self, header: tuple[bytes, bytes], whole: bytes) -> KnownKey | None:
        for given in request_keys([header]):
            known = self._known.get(self._digest(sha256(given).digest()))
            if known is None and self._stored:
                known = self._stored.get(digest_key(given, self._pepper))
            if known is not None:
                if len(self._seen) >= _MAX_SEEN:
                    self._seen.clear()
                self._seen[whole] = known
                return known
        return None

    def _digest(self, hashed: bytes) -> bytes:
        digest = self._keyed.copy()
        digest.update(hashed)
        return digest.digest()


def digest_key(key: bytes, pepper: bytes) -> bytes:
    """Return the digest by which a store knows `key`."""
    return blake2b(sha256(key).digest(), key=pepper, digest_size=32).digest()


def request_keys(headers: Iterable[tuple[bytes, bytes]]) -> list[bytes]:
    """Return the keys in a request's `headers`."""
    found = []
    for name, value in headers:
        if name == b"authorization":
            scheme, _, key = value.partition(b" ")
            if scheme.lower() == b"bearer":
                found.append(key.strip())
        elif name == b"x-api-key":
            found.append(value.strip())
    return found


def _sha256_of(section: KeyConfig, place: str) -> bytes:
    if section.key_sha256 is not None:
        return bytes.fromhex(section.key_sha256)
    if section.key is not None:
        text, place = section.key.get_secret_value(), f"{place}.key"
    elif section.key_env is not None:
        text, place = os.environ.get(section.key_env, ""), f"{place}.key_env: {section.key_env}"
    else:
        assert section.key_file is not None
        place = f"{place}.key_file: {section.key_file}"
        try:
            text = section.key_file.expanduser().read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            why = getattr(error, "strerror", None) or "it is not UTF-8 text"
            raise ConfigError(f"{place} cannot be read: {why}") from None
    text = text.strip()
    if not text:
        raise ConfigError(f"{place}: there is no key")
    return sha256(text.encode()).digest()
