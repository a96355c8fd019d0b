"""Small classifiers over what an encoder made of a text: arrays in one file, tied to the encoder's weights."""

from radixway.encoders.heads.head import Head

__all__ = ["Head"]
