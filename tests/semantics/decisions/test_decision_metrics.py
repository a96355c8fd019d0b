"""Decisions under the published names of metrics, as a scraper finds them."""

from support.running_gateway import running_gateway
from support.scripted_worker import scripted_worker

SECTION = {
    "default_model": "general",
    "model_config": {
        "prover": {"reasoning_family": "deepseek"},
        "thinker": {"reasoning_family": "gpt-oss"},
    },
    "keyword_rules": [
        {"category": "math", "keywords": ["theorem"]},
        {"category": "physics", "keywords": ["quark"]},
    ],
    "fusion": {"certain_at": 0.6},
    "categories": [
        {"name": "math", "model_scores": [{"model": "prover", "score": 1.0, "use_reasoning": True}]},
        {
            "name": "physics",
            "model_scores": [
                {"model": "thinker", "score": 1, "use_reasoning": True, "reasoning_effort": "high"}
            ],
        },
    ],
}


async def asked(*questions, model="auto", section=SECTION, **fields):
    """Metrics with their labels, after these questions."""
    async with scripted_worker(models=["general", "prover", "thinker"]) as worker:
        async with running_gateway(worker.url, semantic=section) as running:
            for text in questions:
                messages = [{"role": "user", "content": text}]
                status, *_ = await running.chat(model=model, messages=messages, **fields)
                assert status == 200
            async with running.client.get(running.url + "/metrics/prometheus") as response:
                lines = (await response.text()).splitlines()
    return dict(line.rsplit(" ", 1) for line in lines if line and line[0] != "#")


async def test_a_decision_is_counted_with_its_category_reason_model_and_thinking():
    found = await asked("Prove the theorem.", "The theorem again.", model="MoM")
    assert found['llm_category_classifications_count{category="math"}'] == "2.0"
    assert found['llm_model_routing_modifications_total{source_model="MoM",target_model="prover"}'] == "2.0"
    assert found['llm_routing_reason_codes_total{model="prover",reason_code="keyword"}'] == "2.0"
    told = 'category="math",effort="",enabled="true",model="prover"'
    assert found[f"llm_reasoning_decisions_total{{{told}}}"] == "2.0"
    assert found['llm_reasoning_template_usage_total{family="deepseek",param="thinking"}'] == "2.0"
    fell_back = 'fallback_reason="no_distribution",fallback_strategy="fallback_traditional_classification"'
    assert found[f"llm_entropy_fallback_usage_total{{{fell_back}}}"] == "2.0"
    sure = 'category="math",classification_method="keyword"'
    assert found[f"llm_classification_confidence_count{{{sure}}}"] == "2.0"
    assert found["llm_model_routing_latency_seconds_count"] == "2.0"
    assert found['llm_classifier_latency_seconds_count{classifier="keyword"}'] == "2.0"


async def test_an_effort_is_counted_by_its_family_but_none_that_a_client_made_up():
    found = await asked("Explain what a quark is.", reasoning_effort="made-up")
    assert found['llm_reasoning_effort_usage_total{effort="high",family="gpt-oss"}'] == "1.0"
    assert not any("made-up" in name for name in found)


async def test_the_domains_entropy_is_counted_in_bits_with_the_published_reason():
    found = await asked("Explain the derivative of x squared.")
    [decided] = [name for name in found if name.startswith("llm_entropy_classification_decisions_total{")]
    assert 'top_category="math"' in decided and "_uncertainty_" in decided
    bits = float(found['llm_entropy_values_sum{category="math",classification_type="entropy_based"}'])
    assert 0 < bits < 3.81  # log2 14
    assert 'llm_classifier_latency_seconds_count{classifier="encoder"}' in found


async def test_a_request_that_names_its_model_is_no_decision():
    found = await asked("Prove the theorem.", model="general")
    assert not any(name.startswith("llm_routing_reason_codes_total{") for name in found)
