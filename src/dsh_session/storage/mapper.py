"""Events as stored events of the ``eventsourcing`` library, and back.

A stored event has four columns. ``originator_id`` is the session's id; ``originator_version`` is 0 for the header and
seq + 1 for an event; the **topic** holds marker and type, so that a reader knows whether an event is its own before
the payload is decoded (ADR-0003); ``state`` is the JSON of the rest, which ends with the event's data, byte for byte
as it was encoded at append (ADR-0004).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec
from eventsourcing.persistence import Mapper, StoredEvent

from dsh_session import lossless_json
from dsh_session.errors import DamagedStoreError
from dsh_session.event import APPEND, Replace, SessionEvent, topic_of
from dsh_session.header import SessionHeader

if TYPE_CHECKING:
    from dsh_session.storage.contract import Row

HEADER_TOPIC: Final = "session"
HEADER_VERSION: Final = 0


class _Head(msgspec.Struct):
    """All of an event's state but the data, which stands last and is cut out by position."""

    time: int
    start: int | None = None
    end: int | None = None
    sources: tuple[int, ...] | None = None
    ignorable: bool = False


_decode_head = msgspec.json.Decoder(_Head).decode
_encode = msgspec.json.Encoder().encode
_DATA_KEY: Final = b',"data":'


def event_state(event: SessionEvent) -> bytes:
    """Write what the topic and the version do not say of an event, its data last."""
    marker = event.surface_op
    if type(marker) is not Replace and event.source_event_seqs is None and not event.ignorable:
        return b'{"time":%d,"data":%b}' % (event.time, event.encoded_data)
    parts = [b'{"time":%d' % event.time]
    if isinstance(marker, Replace):
        parts.append(b',"start":%d,"end":%d' % (marker.start, marker.end))
    if event.source_event_seqs is not None:
        parts.append(b',"sources":' + _encode(event.source_event_seqs))
    if event.ignorable:
        parts.append(b',"ignorable":true')
    parts += (_DATA_KEY, event.encoded_data, b"}")
    return b"".join(parts)


def event_from_state(session_id: str, seq: int, topic: str, state: bytes) -> SessionEvent:
    """Read back what `event_state` wrote, without decoding the data."""
    marker_name, _, event_type = topic.partition(":")
    cut = state.find(_DATA_KEY)
    if cut < 0:
        raise ValueError("its state is that of no event")
    head = _decode_head(state[:cut] + b"}")
    marker: Any = None
    match marker_name:
        case "append":
            marker = APPEND
        case "replace":
            marker = Replace(head.start, head.end)  # type: ignore[arg-type] # Replace refuses what is no seq
        case "log":
            pass
        case _:
            raise ValueError(f"topic {topic!r}; it begins with append:, replace: or log:")
    data = state[cut + len(_DATA_KEY) : -1]
    return SessionEvent(session_id, seq, head.time, event_type, data, marker, head.sources, head.ignorable)


class SessionMapper(Mapper[str]):
    """Maps headers and events by their topic, resolved from the cases here and from nothing else.

    The library's own mapper would import whatever module a row names.
    """

    def to_row(self, domain_event: SessionEvent | SessionHeader) -> Row:
        """Write a `SessionEvent` or a `SessionHeader`, less the session's id."""
        if type(domain_event) is SessionEvent:
            return domain_event.seq + 1, topic_of(domain_event), self.seal(event_state(domain_event))
        return HEADER_VERSION, HEADER_TOPIC, self.seal(lossless_json.encode(domain_event.to_wire()))

    def to_stored_event(self, domain_event: Any) -> StoredEvent:
        """Write a `SessionEvent` or a `SessionHeader` with its id, as the library's own contract has it."""
        is_event = isinstance(domain_event, SessionEvent)
        return StoredEvent(domain_event.session_id if is_event else domain_event.id, *self.to_row(domain_event))

    def to_domain_event(self, stored_event: StoredEvent) -> Any:
        """Read a `SessionEvent` or a `SessionHeader`.

        Raises:
            DamagedStoreError: the row cannot be read.
        """
        return self.read(
            str(stored_event.originator_id), stored_event.originator_version, stored_event.topic, stored_event.state
        )

    def read(self, session_id: str, version: int, topic: str, state: bytes) -> Any:
        """Read one row."""
        is_header = version == HEADER_VERSION
        try:
            opened = self.unseal(state)
            if is_header:
                return SessionHeader.from_wire(lossless_json.decode(opened))
            return event_from_state(session_id, version - 1, topic, opened)
        except (ValueError, TypeError) as error:
            reason, seq = (f"its header: {error}", None) if is_header else (str(error), version - 1)
            raise DamagedStoreError(reason, session_id=session_id, seq=seq) from error

    def seal(self, state: bytes) -> bytes:
        """Compress and encipher, where the store is set up to."""
        if self.compressor is not None:
            state = self.compressor.compress(state)
        return state if self.cipher is None else self.cipher.encrypt(state)

    def unseal(self, state: bytes) -> bytes:
        """Undo `seal`.

        Raises:
            ValueError: the store was set up otherwise when this was sealed, or it is damaged.
        """
        try:
            if self.cipher is not None:
                state = self.cipher.decrypt(state)
            return state if self.compressor is None else self.compressor.decompress(state)
        except Exception as error:  # a cipher or compressor of the user's choice may raise anything
            raise ValueError(f"sealed with another key, cipher or compressor, or damaged: {error!r}") from error
