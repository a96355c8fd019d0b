"""HPACK (RFC 7541): headers of requests are decoded, headers of replies encoded without a table."""

from collections import deque
from collections.abc import Iterable
from functools import lru_cache

Header = tuple[bytes, bytes]


class HpackError(Exception):
    """A header block that cannot be decoded, or is too large; the connection is of no more use."""


_STATIC = (
    ":authority|,:method|GET,:method|POST,:path|/,:path|/index.html,:scheme|http,:scheme|https,:status|200,"
    ":status|204,:status|206,:status|304,:status|400,:status|404,:status|500,accept-charset|,"
    "accept-encoding|gzip; deflate,accept-language|,accept-ranges|,accept|,access-control-allow-origin|,age|,"
    "allow|,authorization|,cache-control|,content-disposition|,content-encoding|,content-language|,"
    "content-length|,content-location|,content-range|,content-type|,cookie|,date|,etag|,expect|,expires|,from|,"
    "host|,if-match|,if-modified-since|,if-none-match|,if-range|,if-unmodified-since|,last-modified|,link|,"
    "location|,max-forwards|,proxy-authenticate|,proxy-authorization|,range|,referer|,refresh|,retry-after|,"
    "server|,set-cookie|,strict-transport-security|,transfer-encoding|,user-agent|,vary|,via|,"
    "www-authenticate|"
)
"""Appendix A; a semicolon stands for a comma."""


def _static_table() -> tuple[Header, ...]:
    fields = (field.replace(";", ",").partition("|") for field in _STATIC.split(","))
    return tuple((name.encode(), value.encode()) for name, _, value in fields)


STATIC_TABLE = _static_table()
_ENTRY_OVERHEAD_BYTES = 32
_MAX_INTEGER_BYTES = 5
_MAX_BLOCKS = 64
"""Blocks that are remembered while the table stays as it is."""
_MAX_REMEMBERED_BYTES = 1_024
"""Of a block, or of a text, that is remembered once decoded."""


class HeaderDecoder:
    """Decodes the header blocks of one connection, in their order.

    The dynamic table follows the static one, its newest entry first:

        1 … 61 static │ 62 newest … oldest
    """

    def __init__(self, *, max_table_bytes: int = 4096, max_list_bytes: int = 65_536) -> None:
        """`max_table_bytes`: what the peer was told; `max_list_bytes`: of names and values of one block."""
        self._max_table_bytes = self._table_limit_bytes = max_table_bytes
        self._max_list_bytes = max_list_bytes
        self._table: deque[Header] = deque()
        self._table_bytes = 0
        self._decoded: dict[bytes, list[Header]] = {}
        """Blocks that left the table as it was, which peers send for each request of a kind."""

    def decode_block(self, block: bytes) -> list[Header]:
        """Return the headers of `block`, which are not to be changed. Raises HpackError."""
        known = self._decoded.get(block)
        if known is not None:
            return known
        headers: list[Header] = []
        at, size, list_bytes, has_changed = 0, len(block), 0, False
        while at < size:
            first = block[at]
            if first & 0x80:
                index, at = _read_integer(block, at, 7)
                header = self._entry(index)
            elif first & 0x40:
                header, at = self._read_literal(block, at, 6)
                self._add_entry(header)
                has_changed = True
            elif first & 0x20:
                if headers:
                    raise HpackError("the table's size changes amid headers")
                limit, at = _read_integer(block, at, 5)
                if limit > self._max_table_bytes:
                    raise HpackError(f"a table of {limit} bytes")
                self._table_limit_bytes = limit
                self._evict_entries(0)
                has_changed = True
                continue
            else:
                header, at = self._read_literal(block, at, 4)
            list_bytes += len(header[0]) + len(header[1]) + _ENTRY_OVERHEAD_BYTES
            if list_bytes > self._max_list_bytes:
                raise HpackError(f"headers of more than {self._max_list_bytes} bytes")
            headers.append(header)
        if has_changed or len(self._decoded) >= _MAX_BLOCKS:
            self._decoded.clear()
        if not has_changed and len(block) <= _MAX_REMEMBERED_BYTES:
            self._decoded[block] = headers
        return headers

    def _entry(self, index: int) -> Header:
        if 0 < index <= len(STATIC_TABLE):
            return STATIC_TABLE[index - 1]
        if len(STATIC_TABLE) < index <= len(STATIC_TABLE) + len(self._table):
            return self._table[index - len(STATIC_TABLE) - 1]
        raise HpackError(f"there is no entry {index}")

    def _read_literal(self, block: bytes, at: int, bits: int) -> tuple[Header, int]:
        index, at = _read_integer(block, at, bits)
        if index:
            name = self._entry(index)[0]
        else:
            name, at = _read_string(block, at)
        value, at = _read_string(block, at)
        return (name, value), at

    def _add_entry(self, header: Header) -> None:
        size = len(header[0]) + len(header[1]) + _ENTRY_OVERHEAD_BYTES
        self._evict_entries(size)
        if size <= self._table_limit_bytes:
            self._table.appendleft(header)
            self._table_bytes += size

    def _evict_entries(self, new_bytes: int) -> None:
        while self._table and self._table_bytes + new_bytes > self._table_limit_bytes:
            name, value = self._table.pop()
            self._table_bytes -= len(name) + len(value) + _ENTRY_OVERHEAD_BYTES


def _read_integer(block: bytes, at: int, bits: int) -> tuple[int, int]:
    """Return the integer that begins in the low `bits` of `block[at]`, and where it ends."""
    limit = (1 << bits) - 1
    value = block[at] & limit
    at += 1
    if value < limit:
        return value, at
    for count in range(_MAX_INTEGER_BYTES):
        if at >= len(block):
            break
        byte = block[at]
        at += 1
        value += (byte & 0x7F) << (7 * count)
        if byte < 0x80:
            return value, at
    raise HpackError("an integer without an end")


def _read_string(block: bytes, at: int) -> tuple[bytes, int]:
    if at >= len(block):
        raise HpackError("a string is missing")
    is_huffman = block[at] & 0x80
    size, at = _read_integer(block, at, 7)
    end = at + size
    if end > len(block):
        raise HpackError("a string without its end")
    coded = block[at:end]
    return (decode_huffman(coded) if is_huffman else coded), end


_CODE_BITS = bytes.fromhex(
    "0d171c1c1c1c1c1c1c181e1c1c1e1c1c1c1c1c1c1c1c1e1c1c1c1c1c1c1c1c1c"
    "060a0a0c0d06080b0a0a080b080606060505050606060606060607080f060c0a"
    "0d06070707070707070707070707070707070707070707070807080d130d0e06"
    "0f05060506050606060507070606060506070605050607070707070f0b0e0d1c"
    "1416141416161617161717171717181718181617181717171715161716171718"
    "1615141616171715171616181516171715151615171617171416161617161617"
    "1a1a1413161716191a1a1a1b1b1a181913151a1b1b1a1b1815151a1a1c1b1b1b"
    "14181415161515171616191918181a171a1b1a1a1b1b1b1b1b1c1b1b1b1b1b1a"
    "1e"
)
"""Bits of the codes of Appendix B, of the 256 bytes and of the end. The codes are canonical."""
_EOS = 256


class _HuffmanNode:
    """A state of the decoder: the bits since the last whole symbol."""

    __slots__ = ("branches", "may_end", "steps", "symbol")

    def __init__(self, *, may_end: bool) -> None:
        self.may_end = may_end
        """These bits are padding: fewer than eight, and all ones."""
        self.symbol: int | None = None
        self.branches: list[_HuffmanNode | None] = [None, None]
        self.steps: dict[int, tuple[_HuffmanNode, bytes]] = {}
        """By the next byte, as they are needed: the state after it, and what it has brought."""


def _huffman_tree() -> _HuffmanNode:
    root = _HuffmanNode(may_end=True)
    code, bits = 0, 0
    for size, symbol in sorted((size, symbol) for symbol, size in enumerate(_CODE_BITS)):
        code <<= size - bits
        bits = size
        node = root
        for depth in range(1, size + 1):
            bit = code >> (size - depth) & 1
            branch = node.branches[bit]
            if branch is None:
                all_ones = code >> (size - depth) == (1 << depth) - 1
                branch = node.branches[bit] = _HuffmanNode(may_end=all_ones and depth < 8)
            node = branch
        node.symbol = symbol
        code += 1
    return root


_ROOT = _huffman_tree()


def decode_huffman(coded: bytes) -> bytes:
    """Return the text of `coded`. Raises HpackError."""
    return _decode_short(coded) if len(coded) <= _MAX_REMEMBERED_BYTES else _decode_text(coded)


def _decode_text(coded: bytes) -> bytes:
    node, text = _ROOT, bytearray()
    for byte in coded:
        step = node.steps.get(byte)
        if step is None:
            step = node.steps[byte] = _take_step(node, byte)
        node = step[0]
        text += step[1]
    if not node.may_end:
        raise HpackError("a Huffman code without its end")
    return bytes(text)


_decode_short = lru_cache(1024)(_decode_text)


def _take_step(node: _HuffmanNode, byte: int) -> tuple[_HuffmanNode, bytes]:
    found = bytearray()
    for shift in range(7, -1, -1):
        branch = node.branches[byte >> shift & 1]
        assert branch is not None  # the code is complete
        node = branch
        if node.symbol == _EOS:
            raise HpackError("the end of a string amid it")
        if node.symbol is not None:
            found.append(node.symbol)
            node = _ROOT
    return node, bytes(found)


def encode_headers(headers: Iterable[Header]) -> bytes:
    """Return the block of `headers`: literals that no table remembers."""
    block = bytearray()
    for name, value in headers:
        block += b"\x00" + _string(name) + _string(value)
    return bytes(block)


def _string(text: bytes) -> bytes:
    size, more = len(text), bytearray()
    if size < 0x7F:
        return bytes((size,)) + text
    size -= 0x7F
    while size >= 0x80:
        more.append(size & 0x7F | 0x80)
        size >>= 7
    more.append(size)
    return b"\x7f" + bytes(more) + text
