"""Injected-context liveness: which injected contexts the model still sees, by source.

A harness that injects context once, such as project notes, has to inject it again when a compaction has shadowed it.
That is a question to the surface, never to the transcript, which keeps everything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from dsh_compact import is_compact_checkpoint_source
from dsh_projections.projection import SURFACE_TOPICS
from dsh_session import SURFACE_EVENT_TYPES, Surface, message_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dsh_session import SessionEvent

_SAID: Final = frozenset({"user", "model", "tool"})


class ContextLiveness:
    """The injected contexts on the current surface, by the name of their source.

    A source is named by its plugin where it has one, and by its kind otherwise. What the user, the model or a tool said
    is no injected context, and neither is a checkpoint.

    Memory: O(nodes), without their payloads.
    """

    version = 1
    topics: frozenset[str] | None = SURFACE_TOPICS

    def __init__(self) -> None:
        self._surface = Surface()
        self._names: dict[int, str] = {}

    def apply(self, event: SessionEvent) -> None:
        """Take in the next event. Cost: O(size of the event + nodes shadowed)."""
        if event.surface_op is None or event.type not in SURFACE_EVENT_TYPES:
            return
        for shadowed in self._surface.apply_checked(event.seq, event.surface_op):
            self._names.pop(shadowed, None)
        if event.type in ("user/message", "steering/message"):
            source = message_of(event.type, event.data)["source"]
            if source["kind"] not in _SAID and not is_compact_checkpoint_source(source):
                plugin = source.get("plugin")
                self._names[event.seq] = plugin if isinstance(plugin, str) else source["kind"]

    def is_live(self, name: str) -> bool:
        """Tell whether the model still sees a context of this source. Cost: O(contexts on the surface)."""
        return name in self._names.values()

    def view(self) -> Mapping[str, tuple[int, ...]]:
        """Return, by source, the seqs of its contexts on the surface, in log order."""
        live: dict[str, tuple[int, ...]] = {}
        for seq, name in self._names.items():
            live[name] = (*live.get(name, ()), seq)
        return live

    def state(self) -> Any:
        """Return the nodes and the contexts among them."""
        return {
            "next_seq": self._surface.next_seq,
            "generation": self._surface.generation,
            "nodes": list(self._surface),
            "names": [[seq, name] for seq, name in self._names.items()],
        }

    def restore(self, state: Any) -> None:
        """Take on the nodes and contexts of a state."""
        self._surface = Surface.restore(state["nodes"], next_seq=state["next_seq"], generation=state["generation"])
        self._names = dict(state["names"])
