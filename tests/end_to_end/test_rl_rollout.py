"""The training loop in examples/rl_rollout: it learns, from exactly the tokens that were sampled."""

import asyncio
import json
import sys
from pathlib import Path

import aiohttp
import pytest
import torch

from policy import Policy, group_advantages, token_logprobs
from radixway.trajectories.adapters import to_slime, to_verl
from rollout import Gateway
from support.engine_process import engine_process
from support.running_gateway import running_gateway
from train import GUIDE, chat_prompts, reward

EXAMPLE = Path(__file__).parents[2] / "examples" / "rl_rollout" / "train.py"
ROUNDING = 1e-3
"""What may lie between two ways to compute a log-probability in float32; one wrong token is far more."""


@pytest.mark.slow
async def test_the_reward_rises_and_every_sample_is_exact(tmp_path):
    log = tmp_path / "rows.jsonl"
    options = {"steps": 8, "prompts": 4, "group": 12, "seed": 3, "log": log}
    command = [str(word) for name, value in options.items() for word in (f"--{name}", value)]
    training = await asyncio.create_subprocess_exec(sys.executable, str(EXAMPLE), *command)
    assert await training.wait() == 0
    rows = [json.loads(line) for line in log.read_text().splitlines()]
    assert [row["versions"] for row in rows] == [[step] for step in range(8)], "one version a step"
    assert all(row["exact"] == 1 for row in rows)
    assert all(row["gap"] < ROUNDING for row in rows), "the trainer computes what the engine sampled with"
    # Untrained, means of 48 answers differ by 0.002 between seeds.
    assert (rows[-1]["reward"] + rows[-2]["reward"]) / 2 > rows[0]["reward"] + 0.03


@pytest.mark.slow
async def test_answers_go_on_under_weights_that_come_in_the_middle_and_each_token_says_which():
    torch.manual_seed(0)
    policy = Policy(str(GUIDE), learning_rate=1e-3)
    (prompt,) = chat_prompts(1)
    with engine_process() as (engine, _):
        async with (
            running_gateway(engine, trajectories={"enabled": True}) as running,
            aiohttp.ClientSession() as client,
        ):
            short = Gateway(running.url, client, in_flight=8, max_new_tokens=12)
            await short.push(policy.weights(), 0)
            (group,) = await short.sample([prompt], 8, seed=0)
            gains = group_advantages([reward(rollout.text) for rollout in group])
            policy.update(group, gains, version=0)

            long = Gateway(running.url, client, in_flight=8, max_new_tokens=150, ignore_eos=True)
            sampling = asyncio.create_task(long.sample([prompt], 4, seed=1))
            asked = {
                "text": prompt,
                "stream": True,
                "sampling_params": {"temperature": 1, "max_new_tokens": 400, "ignore_eos": True},
            }
            headers = {"x-session-id": "streamed"}
            async with client.post(f"{running.url}/generate", json=asked, headers=headers) as response:
                told = await anext(events(response))  # it is being sampled, with many tokens to go
                await long.push(policy.weights(), 1, abort=True)
                async for event in events(response):
                    told = event
            assert told["meta_info"]["finish_reason"]["type"] == "length"
            streamed = await long.tokens_of(prompt, told["text"], "streamed")
            (rollouts,) = await sampling

    assert len(streamed.tokens) - streamed.loss_mask.index(1) == 400 == sum(streamed.loss_mask)
    assert set(streamed.versions) == {None, 0, 1}
    for rollout in (streamed, *rollouts):
        made = [version for version in rollout.versions if version is not None]
        assert made == sorted(made), "after new weights come no old ones"
        gap = {
            version: gap_to(model, rollout, version)
            for version, model in enumerate((policy.first, policy.model))
        }
        assert max(gap.values()) < ROUNDING, gap


async def test_what_the_gateway_tells_of_an_answer_is_what_the_adapters_take():
    (prompt,) = chat_prompts(1)
    sampling = {"max_new_tokens": 10, "temperature": 1}
    with engine_process() as (engine, _):
        async with running_gateway(engine, trajectories={"enabled": True}) as running:
            samples, answers = [], []
            for session in ("a", "b"):
                body = {"text": prompt, "session_id": session, "sampling_params": sampling}
                _, answer, _ = await running.post("/generate", body)
                whole = {"text": prompt + answer["text"], "session_id": session, "strict": True}
                samples.append((await running.post("/retrieve_from_text", whole))[1])
                answers.append(answer)
    batch = to_verl(samples, rewards=[1.0, 0.0], uids=["p", "p"]).arrays(torch)
    for row, (sample, answer) in enumerate(zip(samples, answers, strict=True)):
        made, logprobs = (
            answer["output_ids"],
            [told[0] for told in answer["meta_info"]["output_token_logprobs"]],
        )
        slime = to_slime(sample, finish_reason=answer["meta_info"]["finish_reason"])
        assert slime["tokens"][-slime["response_length"] :] == made
        assert slime["rollout_log_probs"] == pytest.approx(logprobs, abs=1e-6)
        assert (slime["loss_mask"], slime["weight_versions"]) == ([1] * len(made), ["default"])
        trained = batch["response_mask"][row].bool()
        assert batch["responses"][row][trained].tolist() == made
        assert batch["rollout_log_probs"][row][trained].tolist() == pytest.approx(logprobs, abs=1e-6)


async def test_over_the_branches_of_a_session_slime_and_verl_train_on_each_sampled_token_once():
    first = [{"role": "user", "content": "What is a radix tree?"}]
    with engine_process() as (engine, _):
        async with running_gateway(engine) as running:

            async def ask(messages):
                body = {"model": "radixway-guide", "messages": messages, "max_tokens": 12}
                status, reply, _ = await running.post("/sessions/s/v1/chat/completions", body)
                assert status == 200, reply
                return reply["choices"][0]["message"], reply["usage"]["completion_tokens"]

            assert (await running.post("/sessions", {"session_id": "s"}))[0] in (200, 201)
            answer, sampled = await ask(first)
            for question in ("Why?", "How?"):
                _, more = await ask([*first, answer, {"role": "user", "content": question}])
                sampled += more
            await running.post("/sessions/s/reward", {"reward": 0.5})
            _, told = await running.get("/sessions/s/samples")
    samples = told["samples"]
    made = [to_slime(sample, index=at, rollout_id=0) for at, sample in enumerate(samples)]
    assert len(made) == 2 and sum(sum(one["loss_mask"]) for one in made) == sampled
    assert made[0]["prompt"] == first and {one["reward"] for one in made} == {0.5}
    batch = to_verl(samples).arrays(torch)
    assert batch["response_mask"].sum().item() == sampled
    for row, (sample, one) in enumerate(zip(samples, made, strict=True)):
        prompt = len(sample["tokens"]) - one["response_length"]
        assert prompt == sample["calls"][0]["sampled_at"], "the response begins with the first answer"
        there = batch["attention_mask"][row].bool()
        assert batch["input_ids"][row][there].tolist() == sample["tokens"]
        trained = batch["response_mask"][row].bool()
        expected = [one["rollout_log_probs"][at] for at, each in enumerate(one["loss_mask"]) if each]
        assert batch["rollout_log_probs"][row][trained].tolist() == pytest.approx(expected)


async def events(response):
    """The objects of a stream of server-sent events."""
    async for line in response.content:
        if line.startswith(b"data: {"):
            yield json.loads(line[6:])


def gap_to(model, rollout, version):
    """The largest difference between the log-probabilities of `model` and those that `version` sampled."""
    with torch.no_grad():
        computed = token_logprobs(model, torch.tensor([rollout.tokens]))[0].tolist()
    rows = zip(computed, rollout.logprobs[1:], rollout.versions[1:], strict=True)
    return max((abs(here - there) for here, there, made in rows if made == version), default=0.0)
