"""From the configuration to an encoder that runs."""

from __future__ import annotations

from radixway.config import EncodersSection
from radixway.encoders.bert import NumpyBert, read_bert
from radixway.encoders.encoding import Encoder, EncoderError
from radixway.encoders.files import checksum, find_model, read_config
from radixway.encoders.sentence import SentenceEncoder
from radixway.encoders.windows import WordPieces


def load_encoder(config: EncodersSection) -> Encoder:
    """The sentence model that `config` names. Blocks. Raises EncoderError, which says what to install."""
    directory = find_model(config.model)
    shape = read_config(directory)
    if shape.kind != "bert":
        raise EncoderError(f"{directory} is a {shape.kind or 'model of no stated kind'}, not a BERT")
    weights = directory / "model.safetensors"
    backbone = NumpyBert(read_bert(weights, shape), shape)
    pieces = WordPieces(directory, shape.window)
    return SentenceEncoder(config.model.rpartition("/")[2], checksum(weights), shape, pieces, backbone)
