"""Small classifiers over what an encoder made of a text, each in a file, tied to the encoder's weights."""

from pathlib import Path

import radixway.bundled
from radixway.semantics.encoders.heads.domain_head import DomainHead
from radixway.semantics.encoders.heads.head_file import HeadFile

__all__ = ["DOMAIN_HEAD", "DomainHead", "HeadFile"]

DOMAIN_HEAD = Path(radixway.bundled.__file__).parent / "heads" / "domain.npz"
