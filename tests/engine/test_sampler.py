"""Draws follow the distribution that the parameters describe, whatever else is in the batch."""

from array import array
from collections import Counter
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from radixway.engine import sampler
from radixway.engine.engine_request import EngineRequest
from radixway.engine.sampler import sample_tokens, uniform_draw
from radixway.engine.sampling_params import SamplingParams

V = 12


def request(
    seed: int = 0, prompt: tuple[int, ...] = (1, 2), said: tuple[int, ...] = (), **params: Any
) -> EngineRequest:
    made = EngineRequest(
        id="r",
        tokens=array("i", prompt + said),
        params=SamplingParams(**params),
        prompt_len=len(prompt),
        seed=seed,
    )
    made.stop_ids = made.params.stop_token_ids
    return made


def draw(logits: Tensor, *requests: EngineRequest) -> list[int]:
    return [drawn.token_id for drawn in sample_tokens(logits.expand(len(requests), -1).clone(), requests)]


def frequencies(logits: Tensor, count: int = 6000, **params: Any) -> Tensor:
    """How often each token is drawn, over many seeds."""
    drawn = Counter(draw(logits, *(request(seed, **params) for seed in range(count))))
    return torch.tensor([drawn[token] / count for token in range(len(logits))])


def assert_close(seen: Tensor, wanted: Tensor) -> None:
    assert (seen - wanted).abs().max() < 0.025
    assert not seen[wanted == 0].any(), "what has no chance is never drawn"


LOGITS = torch.linspace(-2, 2, V)[torch.randperm(V, generator=torch.Generator().manual_seed(3))]


def test_temperature_zero_takes_the_largest() -> None:
    for temperature in (0, 1e-40, 1e-6):
        assert draw(LOGITS, request(temperature=temperature)) == [int(LOGITS.argmax())]


def test_temperature_sharpens_and_flattens() -> None:
    for temperature in (0.5, 1.0, 3.0):
        assert_close(frequencies(LOGITS, temperature=temperature), (LOGITS / temperature).softmax(-1))


def test_top_k_keeps_the_most_likely() -> None:
    kept = LOGITS.masked_fill(LOGITS.topk(3).values[-1] > LOGITS, -torch.inf)
    assert_close(frequencies(LOGITS, top_k=3), kept.softmax(-1))
    assert_close(frequencies(LOGITS, top_k=0), LOGITS.softmax(-1))
    assert_close(frequencies(LOGITS, top_k=V + 5), LOGITS.softmax(-1))


def test_top_p_keeps_the_smallest_nucleus_that_reaches_it() -> None:
    logits = torch.tensor([0.5, 0.25, 0.15, 0.1]).log()
    assert_close(frequencies(logits, top_p=0.7), torch.tensor([2 / 3, 1 / 3, 0, 0]))
    assert_close(frequencies(logits, top_p=0.76), torch.tensor([0.5, 0.25, 0.15, 0]) / 0.9)
    assert_close(frequencies(logits, top_p=1e-6), torch.tensor([1.0, 0, 0, 0]))


def test_top_p_counts_what_top_k_left() -> None:
    logits = torch.tensor([0.4, 0.2, 0.2 - 1e-6, 0.2 - 2e-6]).log()
    assert_close(frequencies(logits, top_k=2, top_p=0.6), torch.tensor([1.0, 0, 0, 0]))
    assert_close(frequencies(logits, top_k=2, top_p=0.7), torch.tensor([2 / 3, 1 / 3, 0, 0]))


def test_a_top_k_beyond_the_vocabulary_leaves_top_p_what_it_is() -> None:
    logits = torch.tensor([0.5, 0.25, 0.15, 0.1]).log()
    for top_k in (4, 5, 2**31 - 1):
        assert_close(
            frequencies(logits, top_p=0.7, top_k=top_k, count=2000), torch.tensor([2 / 3, 1 / 3, 0, 0])
        )


def test_min_p_drops_what_is_far_less_likely_than_the_best() -> None:
    logits = torch.tensor([0.5, 0.3, 0.15, 0.05]).log()
    assert_close(frequencies(logits, min_p=0.25), torch.tensor([0.5, 0.3, 0.15, 0]) / 0.95)


def test_ties_at_the_edge_are_all_kept() -> None:
    logits = torch.tensor([1.0, 0.0, 0.0, -5.0])
    assert_close(frequencies(logits, top_k=2), torch.tensor([1.0, 0.0, 0.0, -torch.inf]).softmax(-1))


def test_penalties_count_what_was_said() -> None:
    logits = torch.zeros(V)
    penalised = sampled_from(logits, said=(3, 3, 4), presence_penalty=0.5, frequency_penalty=0.25)
    expected = logits.clone()
    expected[3] -= 0.5 + 2 * 0.25
    expected[4] -= 0.5 + 0.25
    assert torch.allclose(penalised, expected)


def test_the_repetition_penalty_counts_the_prompt_too_and_always_lowers() -> None:
    logits = torch.linspace(-1, 1, V)
    penalised = sampled_from(logits, prompt=(0, 11), said=(5,), repetition_penalty=2.0)
    expected = logits.clone()
    expected[0], expected[5], expected[11] = logits[0] * 2, logits[5] * 2, logits[11] / 2
    assert torch.allclose(penalised, expected)


def sampled_from(logits: Tensor, **options: Any) -> Tensor:
    """The scores after penalties, bias and bans."""
    batch, one = logits[None].clone(), [request(temperature=0, **options)]
    sampler._apply_penalties(batch, one)
    sampler._apply_logit_edits(batch, one)
    return batch[0]


def test_penalties_keep_up_with_what_is_said() -> None:
    going = request(temperature=0, frequency_penalty=1.0, said=(3,))
    logits = torch.zeros(1, V)
    for count in (1, 2, 3):
        batch = logits.clone()
        sampler._apply_penalties(batch, [going])
        assert batch[0, 3] == -count
        going.tokens.append(3)


def test_a_bias_is_added_to_its_token_alone() -> None:
    biased = sampled_from(LOGITS, logit_bias={0: 2.5, 7: -100.0})
    change = biased - LOGITS
    assert torch.allclose(change[[0, 7]], torch.tensor([2.5, -100.0]))
    assert change.count_nonzero() == 2


def test_only_allowed_tokens_are_drawn() -> None:
    allowed = frozenset({3, 8})
    kept = LOGITS.masked_fill(~torch.isin(torch.arange(V), torch.tensor([3, 8])), -torch.inf)
    assert_close(frequencies(LOGITS, allowed_token_ids=allowed), kept.softmax(-1))
    assert frequencies(LOGITS, count=50, allowed_token_ids=allowed, logit_bias={5: 1e4})[5] == 0


def test_a_bad_word_of_one_token_is_never_drawn() -> None:
    kept = LOGITS.clone()
    kept[[2, 9]] = -torch.inf
    assert_close(frequencies(LOGITS, bad_words=((2,), (9,))), kept.softmax(-1))


def test_a_bad_word_is_not_completed_within_the_answer() -> None:
    best = int(LOGITS.argmax())
    others = [token for token in range(V) if token != best]
    words = ((others[0], others[1], best),)
    options: dict[str, Any] = {"bad_words": words, "temperature": 0}
    begun = (others[0], others[1])
    assert draw(LOGITS, request(said=begun, **options)) != [best]
    assert draw(LOGITS, request(said=(*begun, others[2]), **options)) == [best]
    assert draw(LOGITS, request(said=(others[1],), **options)) == [best], "too short to be the word"
    assert draw(LOGITS, request(prompt=begun, **options)) == [best], "the prompt does not count"
    assert draw(LOGITS, request(prompt=begun[:1], said=begun[1:], **options)) == [best]


def test_bans_that_leave_no_token_say_so() -> None:
    banned = request(allowed_token_ids=frozenset({3}), bad_words=((3,),))
    (drawn,) = sample_tokens(LOGITS[None].clone(), [banned])
    assert drawn.token_id == -1 and drawn.failure == sampler.NO_ALLOWED_TOKEN


def test_a_request_without_edits_is_sampled_from_the_logits_themselves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("_apply_penalties", "_apply_logit_edits", "_mask_disallowed"):
        monkeypatch.delattr(sampler, name)
    assert draw(LOGITS, request(temperature=0)) == [int(LOGITS.argmax())]


def test_stop_ids_cannot_be_drawn_before_min_tokens() -> None:
    best = int(LOGITS.argmax())
    options: dict[str, Any] = {"stop_token_ids": frozenset({best}), "min_tokens": 2, "temperature": 0}
    assert draw(LOGITS, request(said=(3,), **options)) != [best]
    assert draw(LOGITS, request(said=(3, 4), **options)) == [best]


MIXED = [
    request(1),
    request(2, temperature=0.7, top_k=4),
    request(3, temperature=0),
    request(4, top_p=0.6, presence_penalty=1.0, said=(1, 5)),
    request(5, min_p=0.3, logprobs=2),
    request(6, logit_bias={2: 3.0}, temperature=1.7),
]


def test_a_draw_does_not_depend_on_its_neighbours() -> None:
    alone = [draw(LOGITS, one)[0] for one in MIXED]
    assert draw(LOGITS, *MIXED) == alone
    assert draw(LOGITS, *reversed(MIXED)) == alone[::-1]


def test_a_seed_gives_the_same_stream_again_and_places_differ() -> None:
    one = [draw(LOGITS, request(9, said=(3,) * place))[0] for place in range(50)]
    again = [draw(LOGITS, request(9, said=(3,) * place))[0] for place in range(50)]
    assert one == again and len(set(one)) > 3


def test_uniform_numbers_are_uniform_and_neither_seeds_nor_places_are_alike() -> None:
    numbers = torch.tensor([[uniform_draw(seed, place) for place in range(100)] for seed in range(100)])
    assert numbers.min() >= 0 and numbers.max() < 1
    assert torch.histc(numbers, 10, 0, 1).sub(1000).abs().max() < 150
    for rows in (numbers, numbers.T):
        correlation = torch.corrcoef(rows) - torch.eye(100)
        assert correlation.abs().max() < 0.5
    assert uniform_draw(-1, 0) == uniform_draw(2**64 - 1, 0)


def test_logprobs_are_the_models_own() -> None:
    plain = LOGITS.log_softmax(-1)
    options: dict[str, Any] = {"temperature": 0.3, "top_k": 1, "logit_bias": {4: 50.0}, "logprobs": 3}
    (drawn,) = sample_tokens(LOGITS[None].clone(), [request(**options)])
    assert drawn.token_id == 4 and drawn.logprob is not None
    assert drawn.logprob.token_id == 4
    assert drawn.logprob.logprob == pytest.approx(plain[4].item())
    best = plain.topk(3)
    assert [token for token, _ in drawn.logprob.top] == best.indices.tolist()
    assert [value for _, value in drawn.logprob.top] == pytest.approx(best.values.tolist())


def test_only_those_who_ask_get_logprobs_and_as_many_as_they_ask_for() -> None:
    batch = LOGITS.expand(3, -1).clone()
    none, own, two = sample_tokens(batch, [request(), request(logprobs=0), request(logprobs=2)])
    assert none.logprob is None
    assert own.logprob is not None and own.logprob.top == ()
    assert two.logprob is not None and len(two.logprob.top) == 2


def test_logits_that_are_not_numbers_are_reported_and_harm_nobody_else() -> None:
    batch = LOGITS.expand(3, -1).clone()
    batch[1] = torch.nan
    drawn = sample_tokens(batch, [request(temperature=0), request(logprobs=1), request(temperature=0)])
    assert [one.token_id for one in drawn] == [int(LOGITS.argmax()), -1, int(LOGITS.argmax())]


def test_a_row_without_a_best_token_is_reported_and_harms_nobody_else() -> None:
    best = int(LOGITS.argmax())
    batch = LOGITS.expand(4, -1).clone()
    batch[2, 3] = torch.inf
    everything = {"stop_token_ids": frozenset(range(V)), "min_tokens": 1}
    drawn = sample_tokens(
        batch, [request(top_k=1), request(**everything, top_p=0.5, logprobs=2), request(), request(top_k=1)]
    )
    assert [one.token_id for one in drawn] == [best, -1, -1, best]
    assert [bool(one.failure) for one in drawn] == [False, True, True, False]
    assert drawn[1].logprob is None


def test_sampling_that_fails_for_one_request_goes_on_for_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    see = sampler._update_penalty_state

    def broken(one: EngineRequest, *rest: Any) -> Any:
        seen = see(one, *rest)
        if one.params.presence_penalty == 2:
            raise RuntimeError("no such thing")
        return seen

    requests = [*MIXED, request(presence_penalty=2.0), request(3, frequency_penalty=1.5, said=(4, 4))]
    alone = [draw(LOGITS, one)[0] for one in requests]
    monkeypatch.setattr(sampler, "_update_penalty_state", broken)
    drawn = sample_tokens(LOGITS.expand(len(requests), -1).clone(), requests)
    assert [one.token_id for one in drawn] == [*alone[:-2], -1, alone[-1]]
    assert "no such thing" in drawn[-2].failure
    assert requests[-1].penalty_state is not None and requests[-1].penalty_state.counts[4] == 2


def test_sampling_leaves_the_logits_as_they_are() -> None:
    batch = LOGITS.expand(len(MIXED), -1).clone()
    sample_tokens(batch, MIXED)
    assert torch.equal(batch, LOGITS.expand(len(MIXED), -1))


@pytest.mark.parametrize(
    "extreme", [{"top_p": 1e-46}, {"top_p": 1e-46, "top_k": 3}, {"min_p": 1e-46, "top_p": 1e-30}]
)
def test_a_nucleus_too_small_for_a_float_still_holds_the_best(extreme: dict[str, float]) -> None:
    one = request()
    for name, value in extreme.items():
        object.__setattr__(one.params, name, value)  # past the check of its range
    assert draw(LOGITS, one) == [int(LOGITS.argmax())]


def test_large_logits_divided_by_a_small_temperature_stay_numbers() -> None:
    logits = torch.tensor([1e34, 3e34, -1e34, 2e34])
    assert draw(logits, request(temperature=1e-5), request(temperature=2e-5, min_p=0.5)) == [1, 1]


def reference_kept(logits: Tensor, top_k: int, top_p: float) -> Tensor:
    """What top_k and then top_p keep, by sorting everything."""
    values, order = logits.sort(descending=True, stable=True)
    if 0 < top_k < len(values):
        values[top_k:] = -torch.inf
    chances = values.softmax(-1)
    keep = (chances.cumsum(-1) - chances < top_p) & (values > -torch.inf)
    return torch.zeros(len(logits), dtype=torch.bool).scatter(0, order, keep)


@given(
    st.integers(0, 10**6),
    st.lists(
        st.tuples(st.sampled_from([-1, 1, 3, 40, 150, 200, 1000]), st.floats(0.01, 1.0)),
        min_size=1,
        max_size=4,
    ),
    st.floats(0.1, 8),
)
def test_the_cut_is_right_however_wide_the_nucleus_is(
    seed: int, cuts: list[tuple[int, float]], spread: float
) -> None:
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(len(cuts), 200, generator=generator) * spread
    requests = [request(top_k=k, top_p=p) for k, p in cuts]
    lowest = sampler._cutoff_score(scores, requests, width=8)
    for row, (k, p) in enumerate(cuts):
        chances = scores[row].sort(descending=True).values.softmax(-1).cumsum(-1)
        if (chances - p).abs().min() < 1e-5:
            continue  # a hair's breadth from the edge, rounding decides
        assert torch.equal(scores[row] >= lowest[row], reference_kept(scores[row].clone(), k, p))
