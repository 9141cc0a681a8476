"""Agent sessions as one append-only event log.

Start from `SessionStore`, which keeps sessions, and `Session`, to which events are appended. An event is a
`SessionEvent`; its marker is `APPEND` or a `Replace`.
"""

from dsh_session import lossless_json
from dsh_session.chunk_rows import decode_storage_record, pack_chunk_runs
from dsh_session.errors import (
    ConflictError,
    DamagedStoreError,
    EventNotFoundError,
    InvalidEventError,
    InvalidHeaderError,
    InvalidSurfaceError,
    NotJSONError,
    OpenTurnError,
    RebaseError,
    SessionError,
    SessionExistsError,
    SessionNotFoundError,
    StalePlanError,
    StoreError,
    StoreFormatError,
    StoreUnavailableError,
)
from dsh_session.event import (
    APPEND,
    SURFACE_EVENT_TYPES,
    Append,
    Replace,
    SessionEvent,
    SurfaceOp,
    is_append_surface_event,
    is_replacement_surface_event,
    is_surface_event,
    topic_of,
)
from dsh_session.header import SessionHeader
from dsh_session.jsonl import line_of, read_jsonl, write_jsonl
from dsh_session.jsonl_reader import DamagedLogError, JsonlReader
from dsh_session.log import SessionLog
from dsh_session.message import (
    AssistantMessage,
    AssistantMessageData,
    Block,
    Message,
    ReasoningBlock,
    RequestHeader,
    Source,
    SteeringMessageData,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
    ToolResultData,
    ToolResultMessage,
    UserMessage,
    assistant_message,
    check_data,
    derive_message,
    message_of,
    tool_calls_of,
    tool_result_message,
    user_message,
)
from dsh_session.provider_requests import to_anthropic_messages, to_openai_chat, to_openai_responses
from dsh_session.repair import interrupted_turn_closers
from dsh_session.salvage import Damage
from dsh_session.sendable import Base64Image, ImageBlock, UnsupportedBlockError, UnsupportedHeaderError, UrlImage
from dsh_session.session import Session
from dsh_session.store import SessionStore
from dsh_session.surface import Surface, SurfaceFold, fold_surface
from dsh_session.text_index import PlaintextIndexError, TextIndex
from dsh_session.tracking import Tracker
from dsh_session.watch import Watch

__all__ = [
    "APPEND",
    "SURFACE_EVENT_TYPES",
    "Append",
    "AssistantMessage",
    "AssistantMessageData",
    "Base64Image",
    "Block",
    "ConflictError",
    "Damage",
    "DamagedLogError",
    "DamagedStoreError",
    "EventNotFoundError",
    "ImageBlock",
    "InvalidEventError",
    "InvalidHeaderError",
    "InvalidSurfaceError",
    "JsonlReader",
    "Message",
    "NotJSONError",
    "OpenTurnError",
    "PlaintextIndexError",
    "ReasoningBlock",
    "RebaseError",
    "Replace",
    "RequestHeader",
    "Session",
    "SessionError",
    "SessionEvent",
    "SessionExistsError",
    "SessionHeader",
    "SessionLog",
    "SessionNotFoundError",
    "SessionStore",
    "Source",
    "StalePlanError",
    "SteeringMessageData",
    "StoreError",
    "StoreFormatError",
    "StoreUnavailableError",
    "Surface",
    "SurfaceFold",
    "SurfaceOp",
    "TextBlock",
    "TextIndex",
    "ToolCallBlock",
    "ToolResultBlock",
    "ToolResultData",
    "ToolResultMessage",
    "Tracker",
    "UnsupportedBlockError",
    "UnsupportedHeaderError",
    "UrlImage",
    "UserMessage",
    "Watch",
    "assistant_message",
    "check_data",
    "decode_storage_record",
    "derive_message",
    "fold_surface",
    "interrupted_turn_closers",
    "is_append_surface_event",
    "is_replacement_surface_event",
    "is_surface_event",
    "line_of",
    "lossless_json",
    "message_of",
    "pack_chunk_runs",
    "read_jsonl",
    "to_anthropic_messages",
    "to_openai_chat",
    "to_openai_responses",
    "tool_calls_of",
    "tool_result_message",
    "topic_of",
    "user_message",
    "write_jsonl",
]
