"""`/rehearse`: the road of a request, up to where a worker would get it, and not a step further."""

import json

import pytest
import pytest_asyncio

from radixway.semantics.guard.audit import search_entries
from support.guarded import ATTACK, EMAIL, guarded
from support.scripted_worker import scripted_worker

pytestmark = pytest.mark.asyncio(loop_scope="module")
SEMANTIC = {
    "default_model": "general",
    "keyword_rules": [{"category": "math", "keywords": ["theorem"]}],
    "regex_rules": [{"name": "secret", "pattern": "classified", "action": "block", "message": "not here"}],
    "categories": [
        {
            "name": "math",
            "system_prompt": "You prove.",
            "model_scores": [{"model": "prover", "score": 1.0, "use_reasoning": True}],
        }
    ],
}


async def say(exchange):
    message = {"role": "assistant", "content": "A plant."}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    await exchange.reply(200, json.dumps({"id": "1", "model": "general", "choices": [choice]}).encode())


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def road(tmp_path_factory):
    """A gateway in which everything is on, its worker, and the folder of its audit log."""
    home = tmp_path_factory.mktemp("home")
    sections = {
        "semantic": SEMANTIC,
        "semantic_cache": {"enabled": True},
        "guard": {
            "audit": {"enabled": True, "path": str(home / "audit")},
            "pii": {"action": "mask"},
            "jailbreak": {"action": "block"},
        },
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RADIXWAY_HOME", str(home))
        async with scripted_worker(say, models=["general", "prover"]) as worker:
            async with guarded(patch, worker.url, **sections) as running:
                yield running, worker, home / "audit"


async def rehearse(running, text, **fields):
    body = {"model": "auto", "messages": [{"role": "user", "content": text}]} | fields
    status, said, _ = await running.post("/rehearse", body)
    assert status == 200, said
    return said, {step["step"]: step for step in said["steps"]}


async def test_it_tells_signals_the_model_and_the_worker_and_asks_nobody(road):
    running, worker, _ = road
    said, steps = await rehearse(running, "prove the theorem", stream=True, x=1)
    assert (said["outcome"], said["model"]) == ("worker", "prover")
    assert said["sent"]["messages"][0] == {"role": "system", "content": "You prove."}
    assert said["sent"]["x"] == 1
    keyword = next(each for each in steps["semantic"]["signals"] if each["kind"] == "keyword")
    assert keyword["matched"] and keyword["latency_ms"] >= 0
    assert steps["semantic"]["category"] == "math"
    assert steps["semantic_cache"]["outcome"] == "miss"
    assert list(steps["select"]["candidates"]) == [said["worker"]]
    assert worker.requests == [] and running.in_flight() == 0


async def test_it_tells_what_the_model_would_be_shown_of_personal_data(road):
    running, _, _ = road
    said, steps = await rehearse(running, f"write to {EMAIL}", model="general")
    assert EMAIL not in str(said["sent"])
    assert steps["guard_pii"]["found"][0]["type"] == "EMAIL_ADDRESS"


async def test_what_was_answered_before_would_be_answered_from_the_cache(road):
    running, worker, _ = road
    question = {"model": "general", "messages": [{"role": "user", "content": "what is a tree?"}]}
    await running.post("/v1/chat/completions", question)
    await running.gateway.cache.middleware.wait_for_writes()
    asked = len(worker.requests)
    said, steps = await rehearse(running, "what is a tree?", model="general", stream=True)
    assert (said["outcome"], said["worker"], said["sent"]) == ("answered", "semantic-cache", None)
    assert said["answer"]["choices"][0]["message"]["content"] == "A plant."
    assert steps["semantic_cache"]["outcome"] == "exact"
    assert len(worker.requests) == asked == 1


async def test_what_is_refused_says_why_and_is_no_incident(road):
    running, _, audit = road
    said, _ = await rehearse(running, "this is classified")
    assert said["outcome"] == "refused"
    assert (said["refusal"]["status"], said["refusal"]["code"]) == (403, "blocked_by_rule")
    said, steps = await rehearse(running, ATTACK)
    assert steps["guard_jailbreak"]["action"] == "block"
    said, _ = await rehearse(running, "hello", model="nobody-serves-it")
    assert (said["refusal"]["status"], said["sent"]) == (404, None)
    await running.gateway.audit.log.flush_entries()
    assert [each for each in search_entries(audit) if each.get("rule") == "jailbreak"] == []


async def test_nothing_of_it_is_counted_as_a_request_or_a_decision(road):
    running, _, _ = road
    before = [journal.number for journal in running.gateway.journals.journals_before(None, 1)]
    await rehearse(running, "prove the theorem again")
    async with running.client.get(running.url + "/metrics/prometheus") as answer:
        text = await answer.text()
    assert 'llm_category_classifications_count{category="math"}' not in text
    assert [journal.number for journal in running.gateway.journals.journals_before(None, 1)] == before


HOSTILE = [
    (b"{", None),
    (b'{"messages": []}', "messages"),
    (b'{"messages": [{"role": "user"}], "temperature": -1}', "temperature"),
    (b'{"model": 7, "messages": [{"role": "user", "content": "x"}]}', "model"),
]


@pytest.mark.parametrize(("body", "param"), HOSTILE)
async def test_a_body_that_is_wrong_is_refused_as_a_real_one_is(road, body, param):
    running, _, _ = road
    status, said, _ = await running.post("/rehearse", body)
    assert status == 400 and said["error"]["param"] == param
