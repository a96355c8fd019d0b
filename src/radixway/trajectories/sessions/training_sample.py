"""Training samples of a session: one for each leaf of its tree.

Branches share the tokens before they part. A sampled token that several of them share has mask 1 in the first
of them, in the order in which leaves ended, and 0 in the others: there it is context. So over all samples of
a session each sampled token is trained on exactly once.
"""

from base64 import b64encode
from math import isnan
from typing import Any

import msgspec

from radixway.core.work_slices import WorkSlices
from radixway.trajectories.sessions.call import Message, SessionCall
from radixway.trajectories.sessions.session import AgentSession
from radixway.trajectories.token_records import Trajectory, Version

_SLICE_TOKENS = 4096


class SampleSpan(msgspec.Struct):
    """Tokens [start, end) that have all of this in common."""

    start: int
    end: int
    source: str
    """`prompt` or `sampled`, by this session."""
    loss_mask: int
    version: Version | None


class SampleExperts(msgspec.Struct):
    """Routed experts as a worker sent them: for the tokens [start, end)."""

    call: str
    start: int
    end: int
    data: str
    """Base64."""


class CallPart(msgspec.Struct):
    """A call's tokens in the sample: its prompt from `start`, its answer from `sampled`."""

    id: str
    start: int
    sampled_at: int
    end: int
    trained: bool
    finish_reason: str
    reward: float | None


class TrainingSample(msgspec.Struct):
    """A conversation of a session, from its beginning to a leaf. Lists are per token."""

    session_id: str
    id: str
    """Id of the leaf's call."""
    model: str
    tokens: list[int]
    loss_mask: list[int]
    logprobs: list[float | None]
    """0 for tokens that were not sampled, null where the worker sent none."""
    versions: list[Version | None]
    spans: list[SampleSpan]
    routed_experts: list[SampleExperts]
    calls: list[CallPart]
    messages: list[Message]
    finish_reason: str
    reward: float | None
    """The leaf's, else the session's."""
    exact: bool
    deviations: list[str]
    metadata: dict[str, Any]


def make_samples(session: AgentSession) -> WorkSlices[list[TrainingSample]]:
    """Return a sample for each leaf there is when this begins. Raises ValueError: it has been collected."""
    taken = [(leaf, _read_trajectory(session, leaf)) for leaf in session.leaves]
    trained: set[SessionCall] = set()
    samples: list[TrainingSample] = []
    for leaf, trajectory in taken:
        samples.append((yield from _make_sample(session, leaf, trajectory, trained)))
        yield
    return samples


def _read_trajectory(session: AgentSession, leaf: SessionCall) -> Trajectory:
    if leaf.hold is None:
        raise ValueError(f"the session {session.id!r} has been collected")
    return session.store.trajectory(leaf.hold)


def _make_sample(
    session: AgentSession, leaf: SessionCall, trajectory: Trajectory, trained: set[SessionCall]
) -> WorkSlices[TrainingSample]:
    path = leaf.path()
    count = len(trajectory.ids)
    mask, ours = bytearray(count), bytearray(count)
    versions: list[Version | None] = [None] * count
    logprobs: list[float | None] = [0.0] * count
    parts = []
    of_store = trajectory.versions
    for call in path:
        sampled = slice(call.sampled_at, call.end)
        first = call not in trained
        trained.add(call)
        size = call.end - call.sampled_at
        ours[sampled] = b"\1" * size
        mask[sampled] = bytes([first]) * size
        versions[sampled] = of_store[sampled]
        logprobs[sampled] = [None if isnan(value) else value for value in trajectory.logprobs[sampled]]
        parts.append(
            CallPart(call.id, call.begin, call.sampled_at, call.end, first, call.finish, call.reward)
        )
        yield
    sample_spans = yield from _make_spans(ours, mask, versions)
    return TrainingSample(
        session.id,
        leaf.id,
        leaf.model,
        trajectory.ids.tolist(),
        list(mask),
        logprobs,
        versions,
        sample_spans,
        [experts for call in path if (experts := _call_experts(call)) is not None],
        parts,
        leaf.history(),
        leaf.finish,
        leaf.reward if leaf.reward is not None else session.reward,
        all(call.exact for call in path),
        list(dict.fromkeys(text for call in path for text in call.deviations)),
        session.metadata,
    )


def _make_spans(
    ours: bytearray, mask: bytearray, versions: list[Version | None]
) -> WorkSlices[list[SampleSpan]]:
    spans: list[SampleSpan] = []
    start = 0
    for end in range(1, len(ours) + 1):
        same = end < len(ours) and (
            ours[end] == ours[start] and mask[end] == mask[start] and versions[end] == versions[start]
        )
        if not same:
            source = "sampled" if ours[start] else "prompt"
            spans.append(SampleSpan(start, end, source, mask[start], versions[start]))
            start = end
        if not end % _SLICE_TOKENS:
            yield
    return spans


def _call_experts(call: SessionCall) -> SampleExperts | None:
    if call.experts is None:
        return None
    return SampleExperts(call.id, call.experts_start, call.end - 1, b64encode(call.experts).decode("ascii"))
