"""`GET /audit` and `GET /cache/entries`: what administrators may read, and nobody else."""

from api.test_semantic_cache import CAPITAL, cached
from support.running_gateway import running_gateway
from support.scripted_worker import scripted_worker

KEY = {"authorization": "Bearer the-admin-key"}


async def test_the_latest_entries_come_first_and_only_to_administrators(tmp_path):
    guard = {"pii": {"enabled": True, "action": "block"}, "audit": {"path": str(tmp_path)}}
    async with scripted_worker() as worker:
        gateway = {"admin_key": "the-admin-key"}
        encoders = {"backend": "numpy"}
        async with running_gateway(worker.url, gateway=gateway, guard=guard, encoders=encoders) as running:
            for number in range(3):
                text = f"Write to anna{number}@example.org"
                await running.chat(messages=[{"role": "user", "content": text}])
            await running.gateway.audit.log.flush_entries()
            status, _ = await running.get("/audit")
            assert status == 401
            status, data = await running.get("/audit?rule=pii&limit=2", headers=KEY)
            assert status == 200
            sequence = [entry["seq"] for entry in data["entries"]]
            assert len(sequence) == 2 and sequence == sorted(sequence, reverse=True)
            assert {entry["action"] for entry in data["entries"]} == {"block"}
            assert "anna0" not in str(data)
            _, none = await running.get("/audit?rule=jailbreak", headers=KEY)
            assert none["entries"] == []
            status, refused = await running.get("/audit?limit=0", headers=KEY)
            assert (status, refused["error"]["param"]) == (400, "limit")


async def test_without_a_log_it_is_said():
    async with running_gateway(wait=False) as running:
        status, data = await running.get("/audit")
        assert (status, data["error"]["code"]) == (404, "audit_off")


async def test_kept_answers_are_listed_without_their_questions():
    async with cached() as asking:
        await asking.ask(CAPITAL)
        status, data = await asking.gateway.get("/cache/entries")
        assert status == 200
        (entry,) = data["entries"]
        assert (entry["model"], entry["question"]) == ("m", None)
        _, none = await asking.gateway.get("/cache/entries?model=other")
        assert none["entries"] == []
        _, stats = await asking.gateway.get("/cache/stats")
        assert stats["thresholds"]["similarity"] == 0.85
        status, removed, _ = await asking.gateway.post("/cache/purge", {"entry": entry["id"]})
        assert (status, removed["removed"]) == (200, 1)
