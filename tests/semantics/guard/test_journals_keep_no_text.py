"""What a journal holds on to: decisions, and nothing by which a text could be reached."""

import gc
from types import FunctionType, ModuleType

from support.guarded import EMAIL, chat, guarded
from support.scripted_worker import scripted_worker

RULES = {
    "default_model": "public",
    "keyword_rules": [{"name": "math", "keywords": ["equation"]}],
    "regex_rules": [{"name": "secret", "pattern": "classified", "action": "block"}],
    "categories": [
        {
            "name": "math",
            "model_scores": [
                {"model": "public", "score": 1.0, "use_reasoning": False},
                {"model": "private", "score": 0.5, "use_reasoning": False},
            ],
        }
    ],
    "model_config": {
        "public": {"pii_policy": {"allow_by_default": False}},
        "private": {"pii_policy": {"allow_by_default": True}},
    },
}


def reached(root):
    """Everything that it keeps alive; of functions what they close over, not the modules they are from."""
    seen, waiting = {}, [root]
    while waiting:
        each = waiting.pop()
        if id(each) in seen or isinstance(each, (type, ModuleType)):
            continue
        seen[id(each)] = each
        if isinstance(each, FunctionType):
            waiting += [*(each.__closure__ or ()), *(each.__defaults__ or ())]
        else:
            waiting += gc.get_referents(each)
    return seen.values()


async def test_no_text_of_a_request_can_be_reached_from_its_journal(monkeypatch):
    async with scripted_worker(models=["public", "private"]) as worker:
        async with guarded(monkeypatch, worker.url, semantic=RULES) as gateway:
            for text in ("the equation", "classified"):
                body = chat(f"{text} of {EMAIL}", model="auto")
                await gateway.post("/v1/chat/completions", body)
            await gateway.post("/v1/chat/completions", chat(f"classified {EMAIL}", model="public"))
            journals = gateway.gateway.journals.journals_before(None, 3)
            assert len(journals) == 3
            for journal in journals:
                entries = [said for step, _, said in journal.entries if step == "semantic"]
                assert entries
                texts = [each for each in reached(journal) if isinstance(each, (str, bytes))]
                assert not [each for each in texts if EMAIL in str(each)]
            chosen = next(each for each in entries_of(journals[-1]) if hasattr(each, "wish"))
            assert chosen.choice.best.model == "private" and not chosen.wish.allows("public")


def entries_of(journal):
    return [said for step, _, said in journal.entries if step == "semantic"]
