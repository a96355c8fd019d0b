"""Small classifiers over what an encoder made of a text, each in a file, tied to the encoder's weights."""

from radixway.encoders.heads.head import Head

__all__ = ["Head"]
