"""The errors of compaction: one base, and leaves that a caller can act on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsh_session import SessionError

if TYPE_CHECKING:
    from collections.abc import Iterable


class CompactionError(SessionError):
    """Base of every error that ``dsh_compact`` raises on purpose."""


class InvalidArgumentError(CompactionError, ValueError):
    """A setting or an argument is outside what it may be.

    Attributes:
        argument: its name.
        reason: what was given and what would be right.
    """

    def __init__(self, argument: str, reason: str) -> None:
        self.argument = argument
        self.reason = reason
        super().__init__(f"{argument}: {reason}")


class UnknownNodeError(CompactionError, LookupError):
    """A seq was asked for that is no node of the surface.

    Attributes:
        seq: the seq.
    """

    def __init__(self, seq: int) -> None:
        self.seq = seq
        super().__init__(f"seq {seq} is no node of this surface")


class BracketError(CompactionError, ValueError):
    """An event breaks the order of compaction brackets.

    Attributes:
        seq: the event's position in its log.
    """

    def __init__(self, reason: str, seq: int) -> None:
        self.seq = seq
        super().__init__(f"event at seq {seq}: {reason}")


class CompactionBusyError(CompactionError, RuntimeError):
    """Another compaction of the session is live.

    Attributes:
        seq: its ``compact/start``.
    """

    def __init__(self, seq: int) -> None:
        self.seq = seq
        super().__init__(f"the compaction that started at seq {seq} is live; it must end before another one starts")


class SurfaceChangedError(CompactionError, RuntimeError):
    """What had to stand until a compaction's commit is no longer what stands on the surface.

    Attributes:
        seqs: the nodes of the range; or, where the whole surface had to stand, the nodes that came or went.
    """

    def __init__(self, seqs: Iterable[int]) -> None:
        self.seqs = tuple(seqs)
        super().__init__(f"the surface changed at {list(self.seqs)} while a summary was made; select a range anew")


class SummaryRejectedError(CompactionError, ValueError):
    """A summary cannot stand for what it was made from.

    Attributes:
        reason: what was found in it and what would be right.
    """

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"summary rejected: {reason}")


class NoProgressError(CompactionError, RuntimeError):
    """Compaction did as much as it may, and the request is still too long.

    Attributes:
        tokens: what the request measures now.
        limit: what it would have to stay below.
    """

    def __init__(self, tokens: int, limit: int) -> None:
        self.tokens = tokens
        self.limit = limit
        super().__init__(f"the request still measures {tokens} tokens; it must come below {limit}")


class CompactionClosedError(CompactionError, RuntimeError):
    """A compaction was committed or failed a second time.

    Attributes:
        compaction_id: its id.
    """

    def __init__(self, compaction_id: str) -> None:
        self.compaction_id = compaction_id
        super().__init__(f"compaction {compaction_id!r} has ended; begin another one")


class ContextWindowUnknownError(CompactionError, ValueError):
    """Pressure cannot be measured: neither the log nor the policy says how large the model's context window is.

    Attributes:
        provider: who runs the model, or None where no request header says it.
        model: the model, or None likewise.
    """

    def __init__(self, provider: str | None, model: str | None) -> None:
        self.provider = provider
        self.model = model
        super().__init__(
            f"no context window for model {model!r} of provider {provider!r};"
            " append a request/context event, or give the policy a context_window or threshold_tokens"
        )
