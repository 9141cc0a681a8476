"""Search: what the human can see is found by its words, once, in every kind of database alike."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from time import sleep
from typing import TYPE_CHECKING, Any
from unicodedata import normalize

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from dsh_projections.search import session_search
from dsh_projections.search.session_search import MAX_QUERY_WORDS, SearchQueryError, SessionSearch
from dsh_projections.search.snippet import SNIPPET_CHARS, snippet_of
from dsh_projections.search.words import MAX_CHARS, MAX_WORD_CHARS, words_of
from dsh_session import (
    APPEND,
    Replace,
    SessionError,
    SessionNotFoundError,
    SessionStore,
    StoreError,
    assistant_message,
    tool_result_message,
    user_message,
)
from dsh_session.storage.contract import IndexedText, PlaintextIndexError, TextPlace
from stored import compact, say, ticking_clock

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from hypothesis.strategies import DrawFn

    from dsh_session import Session

KILLS = int(os.environ.get("DSH_KILLS") or 2)
INDEXER = """
import sys
from dsh_projections.search import session_search
from dsh_session import SessionStore
session_search.BATCH = 5
index = session_search.SessionSearch(SessionStore.open(sys.argv[1]))
print("ready", flush=True)
index.catch_up()
print("done", flush=True)
"""

# ruff: noqa: RUF001 - letters that look alike are what is tested
# Spellings of one word each. Where a script has no spaces between words, every character is a word.
SPELLINGS = [
    ("alpha", "Alpha", "ALPHA", "álpha", "alpha\u0301", "ａｌｐｈａ"),
    ("straße", "STRASSE", "Straße"),
    ("или", "ИЛИ"),
    ("x86", "X86"),
    ("and", "AND"),
    ("or", "Or"),
    ("near",),
    ("東",),
    ("京",),
    ("학",),
    ("가", "\u1100\u1161"),
    ("が", "か\u3099"),
    ("か",),
]
PARTS = (" ", "\n", "/", "_", "-", "\0", "\ud800", "\u2028", "*", '" "', "(", "^")
Spoken = tuple[tuple[int, ...], str]


def saying(session: Session, *texts: str) -> list[int]:
    """Append what a user says, and return the seqs."""
    return [say(session, text).seq for text in texts]


def answering(session: Session, content: Any) -> int:
    """Append what a model answers, and return its seq."""
    data = assistant_message(content, turn=1, step=1, provider="p", model="m")
    return session.append("assistant/message", data, APPEND).seq


def caught_up(store: SessionStore, *sessions: Session) -> SessionSearch:
    """Save sessions, and return a search that knows them."""
    for session in sessions:
        store.save(session)
    search = SessionSearch(store)
    search.catch_up()
    return search


def found(search: SessionSearch, query: str, **options: Any) -> list[tuple[str, int]]:
    """Return where a query is found, the best first."""
    return [(hit.session_id, hit.seq) for hit in search.search(query, **options)]


@st.composite
def spoken(draw: DrawFn, parts: Sequence[str], max_size: int) -> Spoken:
    """Give words by number, and a text that says them."""
    words = tuple(draw(st.lists(st.integers(0, len(SPELLINGS) - 1), max_size=max_size)))
    written = [draw(st.sampled_from(SPELLINGS[word])) + draw(st.sampled_from(parts)) for word in words]
    return words, "".join(written)


def holds(said: tuple[int, ...], phrase: tuple[int, ...]) -> bool:
    """Say whether words hold a phrase, by trying every place."""
    return any(said[place : place + len(phrase)] == phrase for place in range(len(said)))


@given(
    logs=st.lists(st.lists(spoken(PARTS, 9), max_size=4), min_size=1, max_size=3),
    asked=st.lists(spoken("/_-", 3).filter(lambda one: one[0]), min_size=1, max_size=3),
    is_quoted=st.booleans(),
)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_database_finds_exactly_the_texts_that_hold_all_words_and_phrases(
    store: SessionStore, logs: list[list[Spoken]], asked: list[Spoken], is_quoted: bool
) -> None:
    """What is found is what a look at every text finds, however words are spelled, parted and quoted."""
    # given
    sessions = [store.create() for _ in logs]
    for session, texts in zip(sessions, logs, strict=True):
        saying(session, *(text or "-" for _, text in texts))
    search = caught_up(store, *sessions)
    expected = {
        (session.id, seq)
        for session, texts in zip(sessions, logs, strict=True)
        for seq, (words, _) in enumerate(texts)
        if all(holds(words, phrase) for phrase, _ in asked)
    }
    query = " ".join(f'"{text}"' if is_quoted else text for _, text in asked)
    # when
    everywhere = found(search, query, limit=10**6)
    one_by_one = [hit for session in sessions for hit in found(search, query, session_id=session.id, limit=9)]
    # then
    ours = {session.id for session in sessions}
    assert len(set(everywhere)) == len(everywhere)
    assert expected == {hit for hit in everywhere if hit[0] in ours}
    assert sorted(expected) == sorted(one_by_one)


def test_a_hit_says_who_speaks_and_reasoning_is_left_out(store: SessionStore) -> None:
    """Users, models, tools and injected context are found with their kinds; reasoning is not found."""
    session = store.create(id="s")
    saying(session, "plan the move")
    session.append("turn/start", {"turn": 1})
    answering(session, [{"type": "reasoning", "text": "a hidden plan"}, {"type": "text", "text": "my plan"}])
    session.append("tool/result", tool_result_message("c", "plan.txt", turn=1, step=1, is_error=True), APPEND)
    steered = user_message("another plan")
    session.append("steering/message", {"turn": 1, "message": steered}, APPEND)
    injected = user_message("planned: plan", source={"kind": "plugin", "plugin": "notes"})
    session.append("user/message", injected, APPEND)
    session.append("session/title", {"title": "plan"})

    search = caught_up(store, session)

    kinds = [(hit.seq, hit.kind) for hit in search.search("plan")]
    assert sorted(kinds) == [(0, "user"), (2, "assistant"), (3, "tool"), (4, "user"), (5, "context")]
    assert search.search("hidden") == []


def test_what_is_shadowed_is_found_once_and_copies_for_the_model_never(store: SessionStore) -> None:
    """A shadowed message is found where it was said, and marked; checkpoints and other replacements are not found."""
    # given
    session = store.create(id="s")
    saying(session, "the needle", "hay")
    result = tool_result_message("c", "needle " * 50, turn=1, step=1, message_id="r")
    whole = session.append("tool/result", result, APPEND)
    pruned = tool_result_message("c", "pruned needle", turn=1, step=1, message_id="r")
    session.append("tool/result", pruned, Replace(whole.seq, whole.seq), [whole.seq])
    compact(session, 0, 1, "checkpoint needle")
    appended = user_message("needle", source={"kind": "plugin", "plugin": "compact"})
    seq = session.append("user/message", appended, APPEND).seq
    # when
    search = caught_up(store, session)
    hits = {hit.seq: (hit.kind, hit.is_current) for hit in search.search("needle")}
    # then
    assert {0: ("user", False), whole.seq: ("tool", False), seq: ("context", True)} == hits
    assert [hit.seq for hit in search.search("hay")] == [1]
    assert search.search("checkpoint") + search.search("pruned") == []


def test_a_fork_has_what_it_inherited_as_its_own(store: SessionStore) -> None:
    """What was said before a fork is found in both sessions, and current in each by its own surface."""
    session = store.create(id="parent")
    saying(session, "needle", "more")
    store.save(session)
    store.fork("parent", new_id="child")
    compact(session, 0, 1, "in short")

    search = caught_up(store, session)

    hits = [(hit.session_id, hit.is_current) for hit in search.search("needle")]
    assert hits == [("child", True), ("parent", False)]


def test_the_best_comes_first_and_the_newest_of_equals(store: SessionStore) -> None:
    """Of texts of one length the one that says the word oftener is better, of those that say it once the shorter."""
    session = store.create(id="s")
    seqs = saying(
        session, "one two three cat", "dog", "one cat two cat", "cat cat one cat", "one cat", "one two three cat"
    )
    search = caught_up(store, session)

    ranked = [seq for _, seq in found(search, "cat")]

    assert [seqs[3], seqs[2]] == [seq for seq in ranked if seq in seqs[2:4]]
    assert [seqs[4], seqs[5], seqs[0]] == [seq for seq in ranked if seq in (seqs[0], seqs[4], seqs[5])]
    assert ranked[:2] == [seq for _, seq in found(search, "cat", limit=2)]


def test_a_search_of_one_session_stays_in_it(store: SessionStore) -> None:
    """Another session's texts are not found, and a session that is not there is an error."""
    one, other = store.create(id="one'"), store.create(id="other")
    saying(one, "cat", "cat")
    saying(other, "cat")
    search = caught_up(store, one, other)

    assert found(search, "cat", session_id="one'") == [("one'", 1), ("one'", 0)]
    for missing in ("none", "\0", "\ud800"):
        with pytest.raises(SessionNotFoundError):
            search.search("cat", session_id=missing)


@given(query=st.text(max_size=30) | st.text(st.sampled_from("a\"'*()-+^:{}[]&|!<>\\%_; \0\ud800."), max_size=30))
@example(query="words:a OR NOT NEAR(a b, 5)")
@example(query="'; DROP TABLE text_index_1; --")
@example(query="a & !b | c <-> d:*")
@example(query="a" * 100_000)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_query_is_an_error_of_the_database(store: SessionStore, query: str) -> None:
    """Whatever a query holds, it has hits or none, or it is refused in words."""
    search = SessionSearch(store)
    if search.catch_up() == 0 and not [*store.sessions()]:
        session = store.create()
        saying(session, "a", "A'a \\ b")
        caught_up(store, session)

    refused = ""
    try:
        search.search(query)
    except SearchQueryError as error:
        refused = str(error)

    has_word = any(map(str.isalnum, normalize("NFKC", query)))
    assert has_word == (refused == "")
    assert has_word or "no words; it has 1 to 100" in refused


@pytest.mark.parametrize("query", ["", " \n", '""', '"', "!? -- (*)", "\0\ud800", "a " * (MAX_QUERY_WORDS + 1)])
def test_a_query_without_a_word_or_with_too_many_is_refused(query: str) -> None:
    """There is nothing to find, and the error says so; it is a ValueError too."""
    with SessionStore.open(":memory:") as store, pytest.raises(SearchQueryError) as raised:
        SessionSearch(store).search(query)

    assert isinstance(raised.value, (SessionError, ValueError))


@pytest.mark.parametrize("limit", [0, -1, True, 1.0])
def test_a_limit_that_asks_for_nothing_is_refused(limit: Any) -> None:
    """A limit is an int of 1 or more; anything else is an error that names it."""
    with SessionStore.open(":memory:") as store, pytest.raises(SearchQueryError, match=f"limit is {limit!r}"):
        SessionSearch(store).search("cat", limit=limit)


def test_a_query_may_have_many_words(store: SessionStore) -> None:
    """The longest phrase that is allowed is found, and so are as many single words; a quote may be left open."""
    session = store.create(id="s")
    text = " ".join(f"w{number}" for number in range(MAX_QUERY_WORDS))
    saying(session, text, text.replace("w40 ", "w40 and "))

    search = caught_up(store, session)

    assert found(search, f'"{text}') == [("s", 0)]
    assert sorted(found(search, text)) == [("s", 0), ("s", 1)]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("src/dsh_session/app.py: don't", ["src", "dsh", "session", "app", "py", "don", "t"]),
        ("Größe ΌΣΟΣ όσος ǰ J\u030c", ["grosse", "οσοσ", "οσοσ", "j", "j"]),
        ("ﬁle №5 ㎏ 1½x ㍻", ["file", "no5", "kg", "1", "1", "2", "x", "平", "成"]),
        ("東京へgo 학교", ["東", "京", "へ", "go", "학", "교"]),
        ("ไทย हिन्दी", ["ไ", "ท", "ย", "ह", "न", "द"]),
        ("\U00020000\U0001f600a", ["\U00020000", "a"]),
        ("\u0301 \u200b\ud800\0", []),
    ],
)
def test_words(text: str, words: list[str]) -> None:
    """Words are folded runs of letters and digits, or single characters of scripts without spaces."""
    assert words == words_of(text)


def test_phrases_are_found_deep_in_a_text_and_nothing_is_behind_its_limit(store: SessionStore) -> None:
    """A phrase is found after thousands of words and many repetitions; what lies behind the limit is not found."""
    session = store.create(id="s")
    deep = "so it goes " * 7000 + "very deep it"
    saying(session, deep, "x " * (MAX_CHARS // 2) + "behind", "deep very")

    search = caught_up(store, session)

    assert found(search, '"goes very deep it"') == [("s", 0)]
    assert search.search("behind") == []


@pytest.mark.parametrize("store", ["sqlite", "postgres"], indirect=True)
def test_the_longest_texts_and_words_can_be_indexed(store: SessionStore) -> None:
    """Nothing that somebody says is too much for a database: the index takes as much of it as its limits say."""
    session = store.create(id="s")
    hanzi = "".join(map(chr, range(0x20000, 0x2A6D6)))
    word = "ab" * 200
    saying(session, hanzi, "\ufdfa" * 50_000, " ".join(f"{number:x}" for number in range(30_000)), word)

    search = caught_up(store, session)

    assert found(search, "\U0002a6d5") == [("s", 0)]
    assert found(search, "\ufdfa") == [("s", 1)]
    assert found(search, "4e20") == [("s", 2)]
    assert found(search, word[:MAX_WORD_CHARS] + "more") == [("s", 3)]


def test_the_index_goes_on_where_it_was(store: SessionStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each text is indexed once, in batches, by whichever search catches up; those without a word count too."""
    monkeypatch.setattr(session_search, "BATCH", 2)
    session = store.create(id="s")
    search = SessionSearch(store)
    assert search.search("cat") == []
    saying(session, "cat", "...", "cat")
    session.append("turn/start", {"turn": 1})
    store.save(session)

    assert search.catch_up() == 3
    assert search.catch_up() == 0
    saying(session, "cat")
    store.save(session)
    assert SessionSearch(store).catch_up() == 1
    assert found(search, "cat") == [("s", 4), ("s", 2), ("s", 0)]


def test_an_index_outlives_its_store(tmp_path: Path, postgres_url: str) -> None:
    """What was indexed is found when the store is opened again."""
    for target in (tmp_path / "sessions.db", postgres_url):
        with SessionStore.open(target) as store:
            session = store.create(id="s")
            saying(session, "cat")
            caught_up(store, session)

        with SessionStore.open(target) as store:
            search = SessionSearch(store)
            assert search.catch_up() == 0
            assert found(search, "cat") == [("s", 0)]


def test_texts_are_added_once(store: SessionStore) -> None:
    """Texts of which the first is there are refused together; those of another version are kept apart."""
    index = store.text_index(7)
    texts = [IndexedText(position, TextPlace("s", position, "user"), ["cat"]) for position in (2, 3, 4)]

    assert index.add(texts[:2])
    assert not index.add(texts[1:])
    assert not store.text_index(7).add(texts[:1])
    assert index.position() == 3
    assert [text.place for text in texts[1::-1]] == index.find([["cat"]], None, 9)
    assert store.text_index(8).position() == 0


def test_many_may_catch_up_at_the_same_time(store: SessionStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads that index a store together index each text once between them, from the first use of the index on."""
    monkeypatch.setattr(session_search, "BATCH", 3)
    session = store.create(id="s")
    saying(session, *["cat"] * 60)
    store.save(session)

    with ThreadPoolExecutor(4) as threads:
        indexed = [*threads.map(lambda _: SessionSearch(store).catch_up(), range(4))]

    assert sum(indexed) == 60
    assert [("s", seq) for seq in range(59, -1, -1)] == found(SessionSearch(store), "cat", limit=100)


def test_an_indexer_that_is_killed_leaves_each_text_once_or_not_yet(tmp_path: Path, postgres_url: str) -> None:
    """After each kill the index holds the first texts, each once; in the end it holds all of them."""
    chance = random.Random()  # noqa: S311 - the moments are any
    for target in (str(tmp_path / "sessions.db"), postgres_url):
        with SessionStore.open(target, clock=ticking_clock()) as store:
            session = store.create(id="s")
            expected = [("s", seq) for seq in saying(session, *["cat"] * 400)]
            store.save(session)
            search = SessionSearch(store)
            for _ in range(KILLS):
                command = [sys.executable, "-c", INDEXER, target]
                with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as indexer:  # noqa: S603 - ours
                    assert indexer.stdout is not None
                    assert indexer.stdout.readline() == "ready\n"
                    sleep(chance.uniform(0, 0.2))
                    indexer.kill()
                hits = found(search, "cat", limit=1000)[::-1]
                assert expected[: len(hits)] == hits
            search.catch_up()
            assert expected == found(search, "cat", limit=1000)[::-1]


def test_an_index_of_an_enciphered_store_must_be_asked_for(tmp_path: Path) -> None:
    """Words are not kept beside events that are enciphered, unless that is allowed in so many words."""
    target = tmp_path / "sessions.db"
    settings = {"CIPHER_TOPIC": "stored:TinyCipher", "CIPHER_KEY": "k"}
    with SessionStore.open(target, settings=settings) as store:
        session = store.create(id="s")
        saying(session, "secretword")
        store.save(session)

        with pytest.raises(PlaintextIndexError, match="allow_plaintext") as raised:
            SessionSearch(store)

        assert isinstance(raised.value, (SessionError, PermissionError))
        assert b"secretword" not in b"".join(path.read_bytes() for path in tmp_path.iterdir())
        search = SessionSearch(store, allow_plaintext=True)
        assert search.catch_up() == 1
        assert found(search, "secretword") == [("s", 0)]


def test_what_the_database_cannot_do_is_a_store_error(tmp_path: Path, postgres_url: str) -> None:
    """A database that is closed is an error of the store, whatever is asked of it."""
    for target in (tmp_path / "sessions.db", postgres_url):
        with SessionStore.open(target) as store:
            index = store.text_index(1)
        text = IndexedText(1, TextPlace("s", 0, "user"), ["cat"])

        for ask in (index.position, lambda: index.add([text]), lambda: index.find([["cat"]], None, 1)):  # noqa: B023 - asked at once
            with pytest.raises(StoreError):
                ask()


@pytest.mark.parametrize(
    ("text", "query", "shown"),
    [
        ("Fix the  failing\n\ttest", "FAILING test", "Fix the [failing] [test]"),
        ("\x1b[31mred\x07 alert\u202e", "red", "[31mred alert"),
        ("a b a c a b", '"a b"', "[a] [b] a c [a] [b]"),
        ("e\u0301te\u0301 q\u0303 end", "ete q", "[été] [q\u0303] end"),
        ("Straße in 東京都 ½", "strasse 京 1", "[Straße] in 東[京]都 [½]"),
        ("x" * 200, "x" * 200, "[" + "x" * 160 + "]…"),
        ("word " * 30 + "needle " + "tail " * 40, "needle", "…" + "word " * 8 + "[needle]" + " tail" * 22 + "…"),
        ("½2x 12½ ½", "1 2x", "[½][2x] 12[½] [½]"),
        ("-" * 100 + "needle" + "-" * 200, "needle", "…" + "-" * 40 + "[needle]" + "-" * 114 + "…"),
        ("long " * 60 + "needle", "needle", "…" + "long " * 30 + "[needle]"),
        ("nothing", "other", "nothing"),
        ("", "other", ""),
    ],
)
def test_snippets(text: str, query: str, shown: str) -> None:
    """A snippet is one printable line around the first match, with every word that matches in brackets."""
    snippet = snippet_of(text, session_search._phrases(query))

    marked = snippet.text
    for start, end in reversed(snippet.matches):
        marked = f"{marked[:start]}[{marked[start:end]}]{marked[end:]}"
    assert shown == marked


@given(
    text=st.text(st.sampled_from("abABéß東京_-/ \n\0\x1b\u0301\u202e\ud800½"), max_size=600),
    place=st.integers(0, 10**6),
    length=st.integers(1, 3),
)
def test_a_snippet_shows_what_it_was_found_by(text: str, place: int, length: int) -> None:
    """A snippet is short and printable, and marks words of the phrase, in their order, the first of all among them."""
    words = words_of(text) or ["nothing"]
    start = place % len(words)
    phrase = words[start : start + length]

    snippet = snippet_of(text, [phrase])

    assert len(snippet.text) <= SNIPPET_CHARS + 2
    assert snippet.text.isprintable()
    assert bool(words_of(text)) == bool(snippet.matches)
    flat = [offset for match in snippet.matches for offset in match]
    assert sorted(flat) == flat
    assert all(start < end for start, end in snippet.matches)
    for start, end in snippet.matches:
        marked = words_of(snippet.text[start:end])
        assert any(word.startswith(marked[0]) or word in marked for word in phrase)
