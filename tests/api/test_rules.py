"""Rules edited over HTTP, before a worker on a real socket: checked, tried, applied, taken back."""

import asyncio
import json

import pytest
import pytest_asyncio

from radixway.semantics.guard.audit import search_entries
from support.packed_journals import pack_journals
from support.running_gateway import running_gateway
from support.scripted_worker import scripted_worker

PATH = "/config/semantic/rules"
RULES = """\
default_model: general
keyword_rules:
  - {category: math, keywords: [theorem]}
regex_rules:
  - {name: card, pattern: '\\d{4}-\\d{4}', action: log}
categories:
  - name: math
    model_scores:
      - {model: prover, score: 1.0, use_reasoning: true}
"""


pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(tmp_path_factory):
    """A gateway with a file of rules, and the folder where that is."""
    home = tmp_path_factory.mktemp("rules")
    (home / "rules.yaml").write_text(RULES)
    async with scripted_worker(models=["general", "prover"]) as worker:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("RADIXWAY_HOME", str(home))
            sections = {
                "semantic": {"config": str(home / "rules.yaml"), "watch": False},
                "guard": {"audit": {"path": str(home / "audit")}},
            }
            async with running_gateway(worker.url, **sections) as running:
                yield running, home


@pytest_asyncio.fixture(loop_scope="module")
async def editing(gateway):
    """The same with the rules of this file in force, and no request of late."""
    running, home = gateway
    (home / "rules.yaml").write_text(RULES)
    assert (await running.post("/config/semantic/reload", {}))[0] == 200
    running.gateway.journals.forget_journals(lambda _: True)
    return running, home / "rules.yaml", home


async def put(running, text, seen, path=PATH, **body):
    sent = json.dumps(body or {"text": text})
    headers = {"if-match": f'"{seen}"'} if seen else {}
    method = "PUT" if path == PATH else "POST"
    async with running.client.request(method, running.url + path, data=sent, headers=headers) as answer:
        return answer.status, await answer.json()


async def ask(running, text, model="auto"):
    _, _, headers = await running.chat(model=model, messages=[{"role": "user", "content": text}])
    return headers.get("x-vsr-selected-model")


async def test_rules_are_applied_take_effect_and_can_be_taken_back(editing):
    running, file, home = editing
    _, seen = await running.get(PATH)
    assert (seen["text"], seen["editable"], seen["in_force"]["version"]) == (RULES, True, seen["version"])
    assert await ask(running, "the theorem") == "prover"
    edited = RULES.replace("prover", "general")
    status, applied = await put(running, edited, seen["version"])
    assert status == 200 and file.read_text() == edited
    assert await ask(running, "the theorem") == "general"
    _, now = await running.get(PATH)
    assert [each["version"] for each in now["past"][:2]] == [applied["version"], seen["version"]]
    assert (await running.client.get(f"{running.url}{PATH}/{seen['version']}")).status == 200
    back = "/config/semantic/rollback"
    status, said = await put(running, None, now["version"], back, version=seen["version"])
    assert status == 200 and said["version"] == seen["version"] and file.read_text() == RULES
    assert await ask(running, "the theorem") == "prover"
    await running.gateway.audit.log.flush_entries()
    kinds = [each.get("kind") for each in search_entries(home / "audit")]
    assert ("rules_applied" in kinds) and ("rules_rolled_back" in kinds)


async def test_whoever_has_not_seen_the_last_edit_changes_nothing(editing):
    running, file, _ = editing
    version = (await running.get(PATH))[1]["version"]
    texts = [RULES + f"# {number}\n" for number in range(4)]
    answers = await asyncio.gather(*(put(running, text, version) for text in texts))
    statuses = sorted(status for status, _ in answers)
    assert statuses == [200, 412, 412, 412]
    winner = next(text for text, (status, _) in zip(texts, answers, strict=True) if status == 200)
    assert file.read_text() == winner
    status, said = await put(running, RULES, version)
    assert (status, said["error"]["code"], said["error"]["param"]) == (412, "rules_changed", "if-match")
    assert (await put(running, RULES, None))[0] == 428


BAD = [
    ("default_model: general\nkeyword_rules:\n  - {category: math}\n", 3, "keyword_rules.0.keywords"),
    ("default_model: general\nshiped_prompts: true\n", 2, "shiped_prompts"),
    ("default_model: [\n", 2, ""),
    ("policy_rules:\n  - {name: p, condition: 'keyword.', action: block}\n", 2, "policy_rules.0.condition"),
    ("regex_rules:\n  - {name: r, pattern: '('}\n", 2, "regex_rules.0.pattern"),
    ("# nothing\n", None, ""),
    ("[1, 2]\n", 1, ""),
    ("config: other.yaml\n", 1, "config"),
]


@pytest.mark.parametrize(("text", "line", "path"), BAD)
async def test_rules_with_a_mistake_are_refused_with_its_line(editing, text, line, path):
    running, file, _ = editing
    version = (await running.get(PATH))[1]["version"]
    status, checked, _ = await running.post("/config/semantic/check", {"text": text})
    assert status == 200 and not checked["ok"]
    status, said = await put(running, text, version)
    assert (status, said["error"]["code"]) == (400, "rules_refused")
    first = said["error"]["mistakes"][0]
    assert said["error"]["mistakes"] == checked["mistakes"]
    assert (first["line"], first["path"]) == (line, path)
    assert file.read_text() == RULES and await ask(running, "the theorem") == "prover"


async def test_a_trial_judges_recorded_requests_again_and_says_what_it_cannot_tell(editing):
    running, file, _ = editing
    await ask(running, "the theorem")
    await ask(running, "card 1234-5678 please")
    await ask(running, "hello", model="general")
    version = (await running.get(PATH))[1]["version"]
    cheaper = RULES.replace("model: prover", "model: general")
    _, said, _ = await running.post("/config/semantic/try", {"text": cheaper})
    assert (said["judged"], said["changed"], said["by"]["model"]) == (2, 1, 1)
    (row,) = said["requests"]
    assert (row["before"]["model"], row["after"]["model"]) == ("prover", "general")
    # What a pattern makes of a request is not known where it was not read: its text is gone.
    blocking = RULES.replace("action: log", "action: block")
    _, said, _ = await running.post("/config/semantic/try", {"text": blocking})
    assert (said["unknown"], said["unread"], said["unread_matter"]) == (2, 1, True)
    assert {name for row in said["requests"] for name in row["missing"]} == {"regex"}
    status, _ = await put(running, blocking, version)
    assert status == 200
    assert (await running.chat(model="auto", messages=[{"role": "user", "content": "1234-5678"}]))[0] == 403
    assert (await running.chat(model="general", messages=[{"role": "user", "content": "1234-5678"}]))[
        0
    ] == 403
    _, said, _ = await running.post("/config/semantic/try", {"text": RULES, "latest": 2})
    # Of the one that named its model the pattern is all that matters; the other's category was never read.
    assert (said["judged"], said["by"]["blocked"], said["unknown"]) == (1, 1, 1)
    assert file.read_text() == blocking


async def test_a_trial_judges_requests_the_same_once_their_journals_are_packed(editing):
    running, _, _ = editing
    await ask(running, "the theorem")
    await ask(running, "card 1234-5678 please")
    book = running.gateway.journals
    explained = [each.explain() for each in book.latest_journals(9)]
    changed = {"text": RULES.replace("model: prover", "model: general")}
    _, before, _ = await running.post("/config/semantic/try", changed)
    pack_journals(book)
    _, after, _ = await running.post("/config/semantic/try", changed)
    assert after == before and before["changed"] == 1
    assert [each.explain() for each in book.latest_journals(9)] == explained


async def test_a_trial_judges_texts_that_are_given_under_both(editing):
    running, _, _ = editing
    new = RULES.replace("model: prover", "model: general").replace("action: log", "action: block")
    texts = ["a theorem", "good morning", "1234-5678"]
    _, said, _ = await running.post("/config/semantic/try", {"text": new, "texts": texts})
    assert [each["changed"] for each in said["texts"]] == [
        ["model"],
        [],
        ["model", "rule", "blocked", "reasoning"],
    ]
    assert [each["after"]["model"] for each in said["texts"]] == ["general", "general", None]
    assert any(signal["kind"] == "keyword" for signal in said["texts"][0]["signals"])


HOSTILE = [
    ("/config/semantic/check", b"{", None),
    ("/config/semantic/check", b'{"text": 3}', "text"),
    ("/config/semantic/check", b'{"text": ""}', "text"),
    ("/config/semantic/check", b'{"text": "a: 1", "more": 1}', "more"),
    ("/config/semantic/try", b'{"text": "default_model: m", "latest": -1}', "latest"),
    ("/config/semantic/try", b'{"text": "default_model: m", "texts": [""]}', "texts[0]"),
    ("/config/semantic/rollback", b'{"version": 1}', "version"),
]


@pytest.mark.parametrize(("path", "body", "param"), HOSTILE)
async def test_a_body_that_is_wrong_is_refused_and_names_the_field(editing, path, body, param):
    running, _, _ = editing
    status, said, _ = await running.post(path, body, headers={"if-match": '"x"'})
    assert status == 400 and said["error"]["param"] == param


async def test_openapi_says_what_is_asked_and_answered(editing):
    running, _, _ = editing
    _, told = await running.get("/openapi.json")
    for path, method in ((PATH, "put"), ("/config/semantic/try", "post"), ("/rehearse", "post")):
        said = told["paths"][path][method]
        assert said["requestBody"]["content"]["application/json"]["schema"]["type"] == "object"
        answer = said["responses"]["200"]["content"]["application/json"]["schema"]["$ref"]
        assert answer.rpartition("/")[2] in told["components"]["schemas"]
    assert told["paths"][PATH]["put"]["parameters"][0]["name"] == "if-match"


async def test_deep_and_odd_texts_are_mistakes_and_no_defects(editing):
    running, _, _ = editing
    for text in (
        "[" * 5000,
        "a: &a [*a]",
        "\x00",
        "a: \ud800".encode("utf-8", "surrogatepass").decode("latin-1"),
        "? [a]\n: b",
    ):
        status, said, _ = await running.post("/config/semantic/check", {"text": text})
        assert status == 200 and not said["ok"], text
    body = b'{"text": "default_model: \\ud800"}'
    status, _, _ = await running.post("/config/semantic/check", body)
    assert status in (200, 400)
    assert (await put(running, None, "x", "/config/semantic/rollback", version="../../etc"))[0] == 404


async def test_rules_in_the_gateways_own_configuration_are_shown_and_not_edited():
    async with scripted_worker(models=["general"]) as worker:
        async with running_gateway(worker.url, semantic={"default_model": "general"}) as running:
            _, said = await running.get(PATH)
            assert not said["editable"] and "semantic.config" in said["why_not"]
            assert said["in_force"]["text"] == "default_model: general\n"
            status, refused = await put(running, "default_model: general\n", "x")
            assert (status, refused["error"]["code"]) == (409, "rules_not_editable")


async def test_without_rules_it_says_how_to_have_some_and_only_the_operator_sees_them():
    async with running_gateway() as running:
        status, said = await running.get(PATH)
        assert (status, said["error"]["code"]) == (404, "semantic_off")
    async with running_gateway(gateway={"admin_key": "k" * 20}) as running:
        assert (await running.get(PATH))[0] == 401
        assert (await running.post("/rehearse", {"messages": [{"role": "user", "content": "x"}]}))[0] == 401
