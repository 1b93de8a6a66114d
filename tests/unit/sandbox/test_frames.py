import socket
import struct
from collections.abc import Iterator

import pytest

from headwater.sandbox import frames
from headwater.sandbox.frames import MAX_FRAME_BYTES, Channel, ChannelClosed, Frame, Kind, ProtocolError


@pytest.fixture
def ends() -> Iterator[tuple[Channel, socket.socket]]:
    channel, other = frames.open_pair()
    yield channel, other
    channel.close()
    other.close()


class TestReceive:
    def test_nothing_yet(self, ends: tuple[Channel, socket.socket]) -> None:
        assert ends[0].receive() is None

    def test_a_frame_in_pieces(self, ends: tuple[Channel, socket.socket]) -> None:
        channel, other = ends
        whole = struct.pack("<BI", Kind.RESULTS, 3) + b"abc"
        for i in range(len(whole)):
            assert channel.receive() is None
            other.send(whole[i : i + 1])
        assert channel.receive() == Frame(Kind.RESULTS, b"abc")

    def test_frames_back_to_back(self, ends: tuple[Channel, socket.socket]) -> None:
        channel, other = ends
        other.send(struct.pack("<BI", Kind.TRACE, 1) + b"1" + struct.pack("<BI", Kind.TRACE, 0))
        assert [channel.receive(), channel.receive(), channel.receive()] == [(7, b"1"), (7, b""), None]

    def test_a_large_frame_does_not_keep_its_memory(self, ends: tuple[Channel, socket.socket]) -> None:
        channel, other = ends
        other.setblocking(False)
        left = memoryview(struct.pack("<BI", Kind.RESULTS, 6 << 20) + bytes(6 << 20))
        frame = None
        while frame is None:
            if left:
                left = left[other.send(left) :]
            frame = channel.receive()
        assert len(frame.payload) == 6 << 20
        assert channel._payload is None

    def test_too_large_is_refused_before_it_is_read(self, ends: tuple[Channel, socket.socket]) -> None:
        channel, other = ends
        other.send(struct.pack("<BI", Kind.RESULTS, MAX_FRAME_BYTES + 1))
        with pytest.raises(ProtocolError):
            channel.receive()

    @pytest.mark.parametrize("sent", [b"", b"\x03\x05", struct.pack("<BI", 3, 4) + b"abc"])
    def test_the_end_within_a_frame(self, ends: tuple[Channel, socket.socket], sent: bytes) -> None:
        channel, other = ends
        other.send(sent)
        other.close()
        with pytest.raises(ChannelClosed):
            channel.receive()


class TestSend:
    def test_more_than_the_socket_takes(self, ends: tuple[Channel, socket.socket]) -> None:
        channel, other = ends
        payload = bytes(range(256)) * (64 << 10)
        channel.send(Kind.SEGMENT, payload)
        received = bytearray()
        while len(received) < len(payload) + 5:
            received += other.recv(1 << 20)
            channel.flush()
        assert received == struct.pack("<BI", Kind.SEGMENT, len(payload)) + payload

    def test_a_frame_behind_one_that_is_not_out(self, ends: tuple[Channel, socket.socket]) -> None:
        channel, other = ends
        channel.send(Kind.SEGMENT, bytes(16 << 20))
        channel.send(Kind.LOOKUP_RESPONSE, b"1", b"0")
        received = bytearray()
        while len(received) < (16 << 20) + 12:
            received += other.recv(1 << 20)
            channel.flush()
        assert received[(16 << 20) + 5 :] == struct.pack("<BI", Kind.LOOKUP_RESPONSE, 2) + b"10"

    def test_more_behind_that_is_refused(self, ends: tuple[Channel, socket.socket]) -> None:
        channel, _ = ends
        channel.send(Kind.SEGMENT, b"header", b"columns", bytes(16 << 20))
        channel.send(Kind.SEGMENT, b"header", b"columns", b"records")
        with pytest.raises(ProtocolError):
            channel.send(Kind.SEGMENT, b"header", b"columns", b"records")

    def test_sending_to_a_closed_peer(self, ends: tuple[Channel, socket.socket]) -> None:
        channel, other = ends
        other.close()
        with pytest.raises(ChannelClosed):
            channel.send(Kind.SEGMENT, b"")
