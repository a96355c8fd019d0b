"""The `semantic_cache` section: answers that are used again for questions that mean the same."""

from __future__ import annotations

import binascii
import re
from base64 import b64decode
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, SecretStr, model_validator

from radixway.core.config.base import ConfigSection, RedisUrl, Share

_KEY_BYTES = (16, 24, 32)


def _check_key(key: SecretStr) -> SecretStr:
    try:
        raw = b64decode(key.get_secret_value(), validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("this must be base64: `openssl rand -base64 32`") from None
    if len(raw) not in _KEY_BYTES:
        raise ValueError(f"this must be 16, 24 or 32 bytes in base64, not {len(raw)}")
    return key


AesKey = Annotated[SecretStr, AfterValidator(_check_key)]


class MilvusConfig(ConfigSection):
    """Milvus as the store: a file of milvus-lite, or a server. Needs radixway[milvus]."""

    uri: str = Field(min_length=1)
    """`/data/cache.db` (embedded), or `http://host:19530`, `https://…`."""
    token: SecretStr | None = None
    """`user:password` or an API key."""
    database: str = ""
    """Of the server; its default where none is given."""
    collection: str = Field(default="radixway_semantic_cache", pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,254}$")
    """In which answers are kept; made where it is missing."""
    connections: int = Field(default=4, ge=1, le=64)
    """Threads that speak to it at a time; they share one channel."""
    timeout_s: float = Field(default=0.5, gt=0)
    """A lookup that takes longer is a miss, and counts against the store."""
    ca_file: Path | None = None
    """Certificates by which the server is known."""
    client_cert_file: Path | None = None
    """This gateway's certificate, where the server asks for one."""
    client_key_file: Path | None = None
    """Its private key."""
    server_name: str | None = None
    """The name in the server's certificate, where it is not the one in the URI."""

    @model_validator(mode="after")
    def _check_connection(self) -> Self:
        if (self.client_cert_file is None) != (self.client_key_file is None):
            raise ValueError("client_cert_file and client_key_file are given together")
        remote = re.match(r"[a-z][a-z0-9+.-]*://", self.uri)
        if remote and not self.uri.startswith(("http://", "https://", "tcp://", "unix://")):
            raise ValueError("uri must be a path, http://HOST:PORT or https://HOST:PORT")
        return self


class ValkeyConfig(ConfigSection):
    """A Valkey or Redis server as the store: plain hashes, no search module. Needs radixway[redis]."""

    url: RedisUrl
    """`redis://HOST:PORT/N`, or `rediss://` for TLS."""
    prefix: str = Field(default="radixway:cache:", min_length=1)
    """What its keys begin with."""
    connections: int = Field(default=8, ge=1, le=256)
    """The most at a time."""
    timeout_s: float = Field(default=0.5, gt=0)
    """How long a request waits for it."""
    most_per_scope: int = Field(default=2000, ge=1)
    """Entries of one scope that are compared; the oldest beyond them are let go."""
    ca_file: Path | None = None
    """Certificates by which a `rediss://` server is known."""


class SemanticCacheConfig(ConfigSection):
    """Conditions on which answers are stored and given again."""

    enabled: bool = False
    """Whether answers are kept and given again."""
    backend: Literal["memory", "milvus", "valkey"] = "memory"
    """Where they are kept."""
    similarity_threshold: Share = 0.85
    """Least cosine of two questions; the verifier still has to agree."""
    ngram_threshold: Share = 0.94
    """The same for what is not plainly English, which is all that the shipped encoder and the verifier were
    made for. Questions in other than Latin letters are compared by characters."""
    category_thresholds: dict[str, Share] = Field(default_factory=dict)
    """The same for single categories, where the model is left to the semantic layer; 1 keeps a category to
    literal repeats."""
    verify: bool = True
    """Let the verifier look at every match of vectors. Cosine alone answers near misses wrongly."""
    ttl_s: float = Field(default=7200, ge=0)
    """Seconds an answer is given for. 0: until it is evicted."""
    max_entries: int = Field(default=10_000, ge=1)
    """Of the memory, which also stands in while another store fails."""
    eviction: Literal["fifo", "lru", "lfu"] = "lru"
    """Which go first where there is no room."""
    candidates: int = Field(default=5, ge=1, le=64)
    """Nearest questions that are looked at."""
    share: Literal["tenant", "user", "user_if_known"] = "user_if_known"
    """Who is given whose answers: all of a tenant each other's; each user only their own, and requests that
    name no user none; or each user their own, and requests that name none each other's."""
    multi_turn: bool = True
    """Also for later turns of a conversation, whose whole history must then be the same."""
    longest_question_chars: int = Field(default=8192, ge=1)
    """Longer questions are neither looked up nor kept."""
    largest_answer_bytes: int = Field(default=2**20, ge=1024)
    """Larger answers are not kept."""
    max_temperature: float | None = Field(default=None, ge=0)
    """Requests hotter than this want variety and pass by."""
    stream_chunk_chars: int = Field(default=80, ge=1)
    """Characters an event has when an answer is given as a stream."""
    warm_up: Path | None = None
    """JSON lines `{question, answer, model}` that are known from the start (docs/semantic.md)."""
    persist: Path | None = None
    """Where the memory is kept between runs."""
    encryption_key: AesKey | None = None
    """Questions and answers are sealed with AES-GCM wherever they lie; base64 of 16, 24 or 32 bytes."""
    milvus: MilvusConfig | None = None
    valkey: ValkeyConfig | None = None
    failures_in_row: int = Field(default=3, ge=1)
    """Of the store, after which it is left alone for `open_s` and memory goes on."""
    open_s: float = Field(default=5, gt=0)
    """How long a store that failed is left alone."""

    @model_validator(mode="after")
    def _check_backend(self) -> Self:
        if self.backend == "milvus" and self.milvus is None:
            raise ValueError("backend milvus needs semantic_cache.milvus.uri")
        if self.backend == "valkey" and self.valkey is None:
            raise ValueError("backend valkey needs semantic_cache.valkey.url")
        return self
