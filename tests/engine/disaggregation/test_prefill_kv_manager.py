"""A prefill engine's book of KV that somebody will come for: pure, the clock passed in."""

from array import array
from dataclasses import replace

import pytest
import torch

from radixway.engine.architecture import read_architecture
from radixway.engine.disaggregation import KVSender, PrefillKVManager
from radixway.engine.disaggregation.transfer_channel import KVTransferError
from radixway.engine.engine_request import BootstrapRoom, EngineRequest, FinishReason
from radixway.engine.errors import InvalidRequestError
from radixway.engine.kv_identity import KVIdentity
from radixway.engine.kv_store import KVStore
from radixway.engine.model_loader import find_model
from radixway.engine.sampling_params import SamplingParams

LAYERS = 3


def book() -> PrefillKVManager:
    shape = replace(read_architecture(find_model("bundled")), layers=LAYERS, kv_heads=2, head_dim=4)
    store = KVStore(shape, 16, 4, torch.float32, torch.device("cpu"))
    return PrefillKVManager(store, KVIdentity("w", "1", "float32", "auto", LAYERS, 2, 4), timeout_s=10)


def announced(departures: PrefillKVManager, room: int = 7) -> KVSender:
    request = EngineRequest(
        id=f"r{room}",
        tokens=array("i", range(20)),
        params=SamplingParams(max_tokens=1),
        pages=array("i", range(1, 6)),
        room=BootstrapRoom("h", 1, room),
    )
    request.kv_sender = departures.announce_request(request)
    return request.kv_sender


def pieces(departure: KVSender, sent: list[int], stop: int, most: int = 100) -> list[tuple[int, int, int]]:
    """What could be sent now, in order; `sent` is moved on."""
    found = []
    while True:
        try:
            piece = departure.next_chunk(sent, stop, most, timeout_s=0)
        except KVTransferError as failure:
            assert "too long" in str(failure)
            return found
        if piece is None:
            return found
        found.append((piece.layer, piece.first, piece.stop))
        sent[piece.layer] = piece.stop


def test_a_layer_leaves_as_soon_as_it_is_computed() -> None:
    departure, sent = announced(book()), [0] * LAYERS
    departure.hold_pages()
    assert pieces(departure, sent, 20) == []
    departure.mark_computed(0, 8)
    assert pieces(departure, sent, 20) == [(0, 0, 8)]
    departure.mark_computed(1, 8)
    departure.mark_computed(2, 8)
    departure.mark_computed(0, 20)
    assert pieces(departure, sent, 20) == [(1, 0, 8), (2, 0, 8), (0, 8, 20)]


def test_what_is_cached_leaves_in_pieces_from_what_the_other_has() -> None:
    departure = announced(book())
    departure.request.num_computed_tokens = 16
    departure.hold_pages()
    assert pieces(departure, [12, 12, 12], 15, most=2) == [
        *((layer, 12, 14) for layer in range(LAYERS)),
        *((layer, 14, 15) for layer in range(LAYERS)),
    ]


def test_a_request_that_gave_its_pages_back_is_not_read_until_it_has_others() -> None:
    departure = announced(book())
    departure.request.num_computed_tokens = 8
    departure.hold_pages()
    piece = departure.next_chunk([0] * LAYERS, 20, 100, 0)
    assert piece is not None
    out = torch.empty(8 * departure._store.layer_token_bytes, dtype=torch.uint8)
    assert departure.read_chunk(piece, out)
    departure.release_pages()
    assert not departure.read_chunk(piece, out)
    assert pieces(departure, [0] * LAYERS, 20) == []
    departure.hold_pages()
    assert departure.read_chunk(piece, out)


def test_what_was_read_is_what_the_pages_hold_and_can_be_put_anywhere() -> None:
    departures = book()
    departure, store = announced(departures), departures.store
    written = torch.randn(20, 2, 4), torch.randn(20, 2, 4)
    for layer in range(LAYERS):
        store.write_kv(layer, store.token_slots(departure.request.pages, 0, 20), *written)
    departure.request.num_computed_tokens = 20
    departure.hold_pages()
    piece = departure.next_chunk([3, 3, 3], 19, 100, 0)
    assert piece is not None
    out = torch.empty(16 * store.layer_token_bytes, dtype=torch.uint8)
    assert departure.read_chunk(piece, out)
    elsewhere = array("i", [12, 9, 11, 10, 8])
    store.write_tokens(2, store.token_slots(elsewhere, 3, 19), out)
    found = store.gather_kv(2, torch.tensor(list(elsewhere)), 19)[:, :, 3:]
    assert torch.equal(found, torch.stack([x[3:19].transpose(0, 1) for x in written]))


def test_kv_that_nobody_comes_for_is_given_up_in_time() -> None:
    departures = book()
    waiting, claimed, computing = (announced(departures, room) for room in (1, 2, 3))
    departures.claim_sender(2, 0)
    for departure in (waiting, claimed):
        departure.request.finish = FinishReason("length")
        departures.mark_finished(departure.request, now_s=100)
    departures.expire_unclaimed(110)
    assert not waiting.is_over
    departures.expire_unclaimed(110.1)
    assert waiting.is_over and not claimed.is_over and not computing.is_over
    assert departures.poll_ended() == [waiting]
    assert departures.stats().reasons == {"no engine fetched it in time": 1}


def test_whoever_comes_too_late_is_told_why_and_does_not_wait() -> None:
    departures = book()
    announced(departures, 1).finish_transfer("the weights changed")
    departures.refuse_room(BootstrapRoom("h", 1, 2))
    for room, reason in ((1, "the weights changed"), (2, "refused")):
        with pytest.raises(KVTransferError, match=reason):
            departures.claim_sender(room, timeout_s=3600)


def test_a_room_is_taken_until_its_request_is_over() -> None:
    departures = book()
    departure = announced(departures, 1)
    with pytest.raises(InvalidRequestError, match="taken") as refusal:
        announced(departures, 1)
    assert refusal.value.field == "bootstrap_room"
    departures.claim_sender(1, 0)
    with pytest.raises(KVTransferError, match="another engine"):
        departures.claim_sender(1, 0)
    departure.finish_transfer()
    assert not announced(departures, 1).is_over
