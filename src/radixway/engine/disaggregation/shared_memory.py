"""Memory that two engines on one machine share: the decode engine makes it and sends it to the other.

It is a memfd and has no name: nothing is left behind by a process that is killed, and /dev/shm, which is
small in containers, is not used. It is sealed against shrinking, since touching what was cut off kills a
process.
"""

import fcntl
import mmap
import os
import socket
import struct
import sys

from radixway.engine.disaggregation.transfer_protocol import KVTransferError

SLOTS = 4
"""Pieces that may be on their way at a time: one being filled, one being emptied, and some ease between."""

LOCAL_SOCKET_PREFIX = "radixway-kv-"
"""What the names of Unix sockets begin with behind which there is a prefill engine."""

_PEER = struct.Struct("3i")  # SO_PEERCRED: pid, uid, gid


class SharedSegment:
    """`SLOTS` slots of `slot_bytes` each."""

    def __init__(self, descriptor: int, slot_bytes: int) -> None:
        self.slot_bytes = slot_bytes
        self._view = memoryview(mmap.mmap(descriptor, SLOTS * slot_bytes))

    def slot_view(self, index: int) -> memoryview:
        """The memory of slot `index`. Raises KVTransferError if there is no such slot."""
        if index >= SLOTS:
            raise KVTransferError(f"a slot that does not exist: {index}")
        return self._view[index * self.slot_bytes :][: self.slot_bytes]


def is_available() -> bool:
    """True on Linux, which has memfd_create."""
    return sys.platform == "linux" and hasattr(os, "memfd_create")


def send_segment(connection: socket.socket, slot_bytes: int) -> SharedSegment:
    """Make slots of `slot_bytes` and give them to the process at the other end of `connection`."""
    descriptor = os.memfd_create("radixway-kv", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(descriptor, SLOTS * slot_bytes)
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
        socket.send_fds(connection, [b"\0"], [descriptor])
        return SharedSegment(descriptor, slot_bytes)
    finally:
        os.close(descriptor)


def receive_segment(connection: socket.socket, slot_bytes: int) -> SharedSegment:
    """Receive a segment with slots of `slot_bytes`. Raises KVTransferError if it is none."""
    said, descriptors, _, _ = socket.recv_fds(connection, 1, 1)
    try:
        if not said or len(descriptors) != 1:
            raise KVTransferError("no shared memory came")
        sealed = fcntl.fcntl(descriptors[0], fcntl.F_GET_SEALS) & fcntl.F_SEAL_SHRINK
        if not sealed or os.fstat(descriptors[0]).st_size != SLOTS * slot_bytes:
            raise KVTransferError("shared memory that could shrink, or of another size")
        return SharedSegment(descriptors[0], slot_bytes)
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def is_same_user(connection: socket.socket) -> bool:
    """True if a process of this user is at the other end of the Unix socket `connection`."""
    peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
    return bool(_PEER.unpack(peer)[1] == os.getuid())
