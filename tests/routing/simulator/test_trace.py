"""Reading traces: whole blocks, order, block sizes, and what is no trace."""

import gzip
import json

import pytest

from radixway.routing.simulator import TraceError, read_trace


def line(**fields):
    return json.dumps(
        {"timestamp": 0, "input_length": 1100, "output_length": 3, "hash_ids": [1, 2, 3], **fields}
    )


def test_the_last_partial_block_has_no_name(tmp_path):
    path = tmp_path / "trace.jsonl"
    path.write_text(line() + "\n\n" + line(input_length=1536))
    trace = read_trace(path)
    assert trace.block_tokens == 512
    assert [request.blocks for request in trace.requests] == [(1, 2), (1, 2, 3)]


def test_requests_come_in_the_order_of_their_times_in_seconds(tmp_path):
    path = tmp_path / "trace.jsonl"
    path.write_text(line(timestamp=2500, hash_ids=[7]) + "\n" + line(timestamp=500, hash_ids=[8]))
    assert [(request.at, request.blocks) for request in read_trace(path).requests] == [
        (0.5, (8,)),
        (2.5, (7,)),
    ]


def test_a_gzipped_trace_is_read_whatever_its_name(tmp_path):
    path = tmp_path / "trace"
    path.write_bytes(gzip.compress(line().encode()))
    assert len(read_trace(path).requests) == 1


def test_a_trace_that_does_not_say_its_block_size_is_told_it(tmp_path):
    path = tmp_path / "trace.jsonl"
    path.write_text(line(input_length=50))
    assert read_trace(path, 16).requests[0].blocks == (1, 2, 3)
    path.write_text(line(input_length=50, block_size=32, hash_ids=[1, 2]))
    assert read_trace(path, 16).block_tokens == 32


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no request"),
        ("hello", ":1: "),
        (line() + "\n{", ":2: "),
        (line(input_length=0), "input_length"),
        (line(timestamp=-1), "timestamp"),
        (line(hash_ids=[1, "2"]), "hash_ids"),
        (line(hash_ids=[1, 2, 3, 4]), "4 hash_ids for 1100 tokens"),
        (line() + "\n" + line(block_size=16, hash_ids=[]), "block_size changes from 512 to 16"),
        ("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9799600,4808,10\n", "CSV"),
    ],
)
def test_what_is_no_trace_is_refused_with_file_and_line(tmp_path, text, why):
    path = tmp_path / "trace.jsonl"
    path.write_text(text)
    with pytest.raises(TraceError) as error:
        read_trace(path)
    assert why in str(error.value)
    assert str(path) in str(error.value)


@pytest.mark.parametrize(
    "broken", [b"\x1f\x8b\x08\x00nonsense", gzip.compress(b"x" * 9999, mtime=0)[:30], b'{"a": "\xff"}']
)
def test_broken_files_are_refused_too(tmp_path, broken):
    path = tmp_path / "trace.gz"
    path.write_bytes(broken)
    with pytest.raises(TraceError):
        read_trace(path)
    with pytest.raises(TraceError, match="No such file"):
        read_trace(tmp_path / "missing")
    with pytest.raises(TraceError, match="cannot read"):
        read_trace(tmp_path)
