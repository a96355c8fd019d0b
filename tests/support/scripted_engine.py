"""An engine that answers from a script, with the real text pipeline: for what models make hard to provoke."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import radixway.bundled
from radixway.core.config.engine import EngineConfig
from radixway.core.tokenizer import Tokenizer
from radixway.engine.detokenizer import DetokenizedStream
from radixway.engine.engine_info import EngineStats, ModelInfo
from radixway.engine.engine_request import BootstrapRoom, FinishReason, RequestOutput, TokenLogprob
from radixway.engine.errors import ContextLengthError, EngineError, EngineQueueFullError
from radixway.engine.sampling_params import SamplingParams

GUIDE = Path(radixway.bundled.__file__).parent / "guide"
ANSWER = "The answer is 42, 你好 😀."


class ScriptedGeneration:
    """Gives the script's tokens one by one; after the `hold_after`th it waits until aborted."""

    def __init__(
        self, engine: "ScriptedEngine", request_id: str, prompt: Sequence[int], params: SamplingParams
    ) -> None:
        self.request_id = request_id
        self.aborted = asyncio.Event()
        self._engine = engine
        self._prompt = prompt
        self._params = params
        self._outputs = self._run()

    def __aiter__(self) -> AsyncIterator[RequestOutput]:
        return self

    async def __anext__(self) -> RequestOutput:
        return await anext(self._outputs)

    async def aclose(self) -> None:
        if self._engine.running.pop(self.request_id, None):
            self.aborted.set()
            self._engine.aborted.put_nowait(self.request_id)
        await self._outputs.aclose()

    async def _run(self) -> AsyncIterator[RequestOutput]:
        engine, params = self._engine, self._params
        text = DetokenizedStream(engine.tokenizer, params)
        script = [*engine.script, *([] if params.ignore_eos else [engine.eos])]
        for position, token in enumerate(script, start=1):
            if position > engine.hold_after:
                engine.holding.set()
                await self.aborted.wait()
            await asyncio.sleep(0)
            if engine.fails_after is not None and position > engine.fails_after:
                raise EngineError("the model caught fire")
            is_eos = token == engine.eos and not params.ignore_eos
            piece = "" if is_eos else text.feed([token])
            finish = None
            if self.aborted.is_set():
                finish = FinishReason("abort", message="aborted")
            elif text.matched_stop is not None or is_eos:
                finish = FinishReason("stop", token if is_eos else text.matched_stop)
            elif position == params.max_tokens or position == len(script):
                finish = FinishReason("length")
            logprobs = []
            if params.logprobs is not None:
                top = tuple((i, -0.5 * (i + 1)) for i in range(params.logprobs))
                logprobs = [TokenLogprob(token, float("-inf") if position == 2 else -0.25, top)]
            yield RequestOutput(
                request_id=self.request_id,
                token_ids=[token],
                logprobs=logprobs,
                text=piece + (text.flush() if finish else ""),
                finish=finish,
                prompt_tokens=len(self._prompt),
                cached_tokens=len(self._prompt) // 2,
                completion_tokens=position,
                weight_version="v7",
            )
            if finish:
                engine.running.pop(self.request_id, None)
                return


class ScriptedEngine:
    """Stands in for `Engine`: the bundled tokenizer, a context of 256 tokens, one answer to everything."""

    def __init__(self) -> None:
        self.tokenizer = Tokenizer.load(GUIDE)
        self.config = EngineConfig()
        self.kv_events = None
        self.bootstrap_port = None
        self.eos = self.tokenizer.token_id("eos_token")
        self.script = self.tokenizer.encode(ANSWER, add_special_tokens=False)
        self.model_info = ModelInfo(
            name="radixway-guide",
            path=str(GUIDE),
            architecture="Qwen3ForCausalLM",
            dtype="float32",
            device="cpu",
            vocab_size=self.tokenizer.size,
            context_length=256,
            eos_token_ids=frozenset({self.eos}),
            parameters=1,
            weight_version="v7",
        )
        self.reset()

    def reset(self) -> None:
        """As if new."""
        self.hold_after = 10**9
        self.fails_after: int | None = None
        self.room = 10**9
        self.running: dict[str, ScriptedGeneration] = {}
        self.submitted: list[tuple[list[int], SamplingParams, str, int]] = []
        self.aborted: asyncio.Queue[str] = asyncio.Queue()
        self.holding = asyncio.Event()
        self.flushes = 0

    def submit_request(
        self,
        prompt_ids: Sequence[int],
        params: SamplingParams,
        *,
        request_id: str | None = None,
        namespace: str = "",
        priority: int = 0,
        room: BootstrapRoom | None = None,
    ) -> ScriptedGeneration:
        if len(prompt_ids) + (params.max_tokens or 1) > self.model_info.context_length:
            raise ContextLengthError(len(prompt_ids), params.max_tokens, self.model_info.context_length)
        if len(self.running) >= self.room:
            raise EngineQueueFullError("too many requests wait; try again later")
        assert request_id is not None and request_id not in self.running
        self.submitted.append((list(prompt_ids), params, namespace, priority))
        generation = self.running[request_id] = ScriptedGeneration(self, request_id, prompt_ids, params)
        return generation

    def abort_request(self, request_id: str) -> bool:
        generation = self.running.pop(request_id, None)
        if generation is not None:
            generation.aborted.set()
            self.aborted.put_nowait(request_id)
        return generation is not None

    def flush_cache(self) -> bool:
        self.flushes += 1
        return not self.running

    def stats(self) -> EngineStats:
        return EngineStats(
            running=len(self.running),
            waiting=0,
            kv_total=1000,
            kv_used=100 * len(self.running),
            kv_cached=50,
            prompt_tokens=sum(len(prompt) for prompt, *_ in self.submitted),
            cached_tokens=0,
            generated_tokens=0,
            requests=len(self.submitted),
            preemptions=0,
            evicted_tokens=0,
        )
