"""From lines of traffic to a trace: numbers by first appearance, one block size for all."""

import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radixway.routing.simulator import TraceError, read_trace
from radixway.routing.simulator.trace import TraceRecorder


def line(*blocks, size=16, tokens=None, **more):
    tokens = len(blocks) * size + 3 if tokens is None else tokens
    fields = {"timestamp": 1.5, "input_length": tokens, "output_length": 2, "block_size": size}
    return json.dumps(fields | {"hash_ids": blocks} | more).encode()


def recorded(*lines, block_tokens=None):
    written = []
    recorder = TraceRecorder(written.append, block_tokens)
    for text in lines:
        recorder.record_line(text)
    return recorder, [json.loads(text) for text in written]


def ids(*lines, block_tokens=None):
    return [found["hash_ids"] for found in recorded(*lines, block_tokens=block_tokens)[1]]


def test_blocks_are_numbered_in_the_order_in_which_they_first_appear():
    assert ids(line(2**63, 7), line(2**63, 9, 7), line(7)) == [[0, 1], [0, 2, 1], [1]]


def test_sessions_are_numbered_too():
    _, found = recorded(line(1, session=77), line(1, session=2**62), line(1, session=77))
    assert [request["session"] for request in found] == [0, 1, 0]


def test_larger_blocks_are_cut_and_smaller_ones_joined():
    assert ids(line(1, 2), line(5, 7, size=32), line(5, 8, size=32)) == [[0, 1], [2, 3, 4, 5], [2, 3, 6, 7]]
    assert ids(line(5, 6, 7, 8, 9), line(5, 6, 7), block_tokens=32) == [[0, 1], [0]]
    _, found = recorded(line(5, 6), block_tokens=64)
    assert found[0]["hash_ids"] == []
    assert found[0]["block_size"] == 64


def test_sizes_that_do_not_go_into_each_other_are_left_out_and_counted():
    recorder, found = recorded(line(1, size=24), line(1, size=32), line(2, size=48))
    assert (recorder.recorded, recorder.left_out) == (2, 1)
    assert {request["block_size"] for request in found} == {24}


@given(st.lists(st.tuples(st.sampled_from([16, 32, 64]), st.integers(0, 5)), min_size=1))
def test_what_is_recorded_is_read_and_shares_what_was_shared(prompts):
    """Prompts of `depth` blocks that are all one prefix, of a family for each size."""
    lines = [line(*(size * 1000 + at for at in range(depth)), size=size) for size, depth in prompts]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace"
        path.write_bytes(b"".join(json.dumps(found).encode() + b"\n" for found in recorded(*lines)[1]))
        trace = read_trace(path)
    assert len(trace.requests) == len(prompts)
    for first, (size, depth) in zip(trace.requests, prompts, strict=True):
        assert len(first.blocks) == size * depth // trace.block_tokens
        for second, (other, _) in zip(trace.requests, prompts, strict=True):
            common = min(len(first.blocks), len(second.blocks)) if size == other else 0
            assert (first.blocks[:common] == second.blocks[:common]) and (
                size == other or not set(first.blocks) & set(second.blocks)
            )


@pytest.mark.parametrize(
    "text", [b"hello", b"{}", b'{"status": "ok"}', line(1).replace(b'"block_size": 16, ', b"")]
)
def test_what_is_no_traffic_is_refused(text):
    with pytest.raises(TraceError, match="no line of traffic"):
        recorded(text)
