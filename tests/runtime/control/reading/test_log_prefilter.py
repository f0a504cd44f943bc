"""What a pattern must find is worked out right: nothing that RE2 finds is left out, much else is.

Patterns are made with a text that they match, so that most searches find something. The oracle is
RE2 itself, line by line, with the pattern as it was written.
"""

import pytest
import re2
from hypothesis import example, given, settings
from hypothesis import strategies as st

from runtime.control.log_search import sieve
from runtime.control.log_search.block import wanted_lines
from runtime.control.log_search.patterns import DEFAULT_RANK, Wanted, compile_wanted
from runtime.control.log_search.requirements import BREAK, Window, required_clauses
from runtime.control.log_search.sieve import Sieve
from runtime.control.log_search.spelling import for_lines
from runtime.control.log_search.trigrams import bitmap_of, frames_with
from runtime.observe.log_filter import LineFilter

Made = tuple[str, str]
"""A pattern and a text that it matches, anchors aside."""

ATOMS: list[Made] = [
    *((char, char) for char in "abckKsSix17-_ \u00e9\u017f\u212a\U0001f600"),
    ("[a-c]", "b"),
    ("[^a]", "k"),
    ("[^a]", "\u00e9"),
    ("[k-s]", "s"),
    ("[\u00e0-\u00fc]", "\u00e9"),
    ("[]x-]", "]"),
    ("\\d", "4"),
    ("\\D", "\u20ac"),
    ("\\w", "k"),
    ("\\W", "\u017f"),
    ("\\s", "\t"),
    ("\\S", "\v"),
    (".", "\u00e9"),
    ("\\.", "."),
    ("\\x41", "A"),
    ("\\101", "A"),
    ("[[:alpha:]]", "q"),
    ("[^[:^digit:]]", "4"),
    ("[[:^digit:]\\d]", "4"),
    ("\\pL", "\u00e9"),
    ("\\p{Greek}", "\u03b1"),
    ("\\P{Latin}", "7"),
    ("[\\pN-]", "-"),
    ("[^\\pL]", "7"),
    ("\\Qa.\\E", "a."),
    ("(?U)a+?", "a"),
    ("a{,2}", "a{,2}"),
    ("\\\\", "\\"),
    ("\\\\A", "\\A"),
    ("[\\\\Az]", "z"),
]
ENDS: list[Made] = [(word, "") for word in ("^", "$", "\\A", "\\z", "\\b", "(?m)", "(?-m)", "(?i)")]
REPEATS = [("*", 0), ("*", 2), ("+", 1), ("?", 0), ("?", 1), ("{2}", 2), ("{1,3}", 2), ("{2,}", 3)]
REPEATS += [("{0}", 0), ("+?", 2), ("{5}", 5), ("{34}", 34)]
HEADS = ["(%s)", "(?:%s)", "(?P<n>%s)", "(?i:%s)", "(?-i:%s)", "(?-m:%s)", "(?ms:%s)"]


def row(parts: list[Made]) -> Made:
    """Return one pattern behind the other."""
    return "".join(part[0] for part in parts), "".join(part[1] for part in parts)


def grown(inner: st.SearchStrategy[Made]) -> st.SearchStrategy[Made]:
    """Return patterns made of others."""
    return st.one_of(
        st.lists(inner, min_size=2, max_size=4).map(row),
        st.tuples(inner, inner).map(lambda made: (f"(?:{made[0][0]}|{made[1][0]})", made[0][1])),
        st.tuples(inner, inner).map(lambda made: (f"{made[0][0]}|{made[1][0]}", made[1][1])),
        st.tuples(inner, st.sampled_from(REPEATS)).map(
            lambda made: (f"(?:{made[0][0]}){made[1][0]}", made[0][1] * made[1][1])
        ),
        st.tuples(inner, st.sampled_from(HEADS)).map(
            lambda made: (made[1].replace("%s", made[0][0]), made[0][1])
        ),
    )


MADE = st.recursive(st.sampled_from(ATOMS + ENDS), grown, max_leaves=8)
LINES = st.lists(
    st.text(alphabet="abkKsSiI\u0130\u0131x17-_. \u00e9\u00c9\u017f\u212a\\{,}Az", max_size=12),
    min_size=1,
    max_size=12,
)


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a short block have many chunks, and be sieved."""
    monkeypatch.setattr(sieve, "_CHUNK", 40)
    monkeypatch.setattr(sieve, "_SAMPLE", 40)
    monkeypatch.setattr(sieve, "_FEW_PLACES", 4)
    monkeypatch.setattr(sieve, "_LEAST_BLOCK", 1)


def found(block: bytes, wanted: Wanted) -> list[bytes]:
    """Return the wanted lines of a block."""
    return [block[a:b] for a, b in wanted_lines(block, wanted, lambda: DEFAULT_RANK)]


def compiled(pattern: str) -> "re2._Regexp | None":
    """Return a pattern as RE2 reads it, for one line."""
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern.encode(), options)
    except re2.error:
        return None


@settings(max_examples=300, deadline=None)
@given(MADE, LINES, st.data())
@example(("(?i)s", "\u017f"), ["\u017f"], None)
@example(("\\Ab|c\\z", "b"), ["b", "ab", "bc", "c"], None)
@example(("\\Q(", "("), ["("], None)
def test_nothing_that_a_pattern_matches_is_left_out(
    made: Made, lines: list[str], data: st.DataObject | None
) -> None:
    pattern, text = made
    oracle = compiled(pattern)
    if oracle is None:
        return
    place = data.draw(st.integers(0, len(lines) - 1)) if data is not None else 0
    lines[place : place + 1] = [text, f"a{text}", f"{text} b", f"x\u00e9{text}-{text}"]
    end = "\n" if data is None or data.draw(st.booleans()) else ""
    block = ("\n".join(lines) + end).encode()

    wanted = compile_wanted(LineFilter(search=pattern, is_regex=True))

    rows = block.split(b"\n") if not end else block.split(b"\n")[:-1]
    rows = rows[:-1] if rows[-1] == b"" and not end else rows
    matched = [line for line in rows if oracle.search(line) is not None]
    assert found(block, wanted) == matched, pattern
    assert not matched or frames_with(wanted.clauses, bitmap_of(block), 1) == [True]


def written(window: Window) -> str:
    """Return a window as text: ^ for a line's end, the size of a set of several bytes."""
    words = {BREAK: "^"}
    sets = [bytes(byte for byte in range(256) if one >> byte & 1) for one in window]
    return "".join(
        words.get(one) or (data.decode("latin-1") if len(data) == 1 else f"<{len(data)}>")
        for one, data in zip(window, sets, strict=True)
    )


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("abc\\d+def", ["abc<10>", "<10>def"]),
        ("(?:abc|def)ghi", ["abcghi|defghi"]),
        ("(abc)+x?yz", ["abc", "abcyz|abcxyz"]),
        ("(abc)*", []),
        ("", []),
        ("(?i)abc", ["<2><2><2>"]),
        ("(?i:a)b", ["<2>b"]),
        ("(?i)as", ["<2><3>", "<3>"]),
        ("a.b", ["a<178>", "<191>b"]),
        ("caf\u00e9", ["caf\u00c3\u00a9"]),
        ("\\babc\\b$", ["abc^"]),
        ("^ERROR.*\\d\\z", ["^ERROR", "<10>^"]),
        ("x.*y|z", ["x|z", "y|z"]),
        ("\\d{1,3}\\.\\d{1,3}:", ["<10>.<10>:|<10>.<10><10>:|<10>.<10><10><10>:"]),
        ("[[:alpha:]]\\Qa.\\E", ["<52>a."]),
        ("[^[:^alpha:]]a", ["<103>", "<116>a"]),
        ("a{,2}b", ["a{,2}b"]),
        ("a\\p{Greek}", ["a<51>", "<64>"]),
        ("(?U)abc", []),
        ("a\\Cbc", []),
    ],
)
def test_what_a_pattern_must_find_is_known(pattern: str, expected: list[str]) -> None:
    clauses = required_clauses(for_lines(pattern))

    assert ["|".join(map(written, clause)) for clause in clauses] == expected


RARE = [
    "needle",
    "(?i)[a-z] ?NEEDLE",
    "[a-z]+\\d[a-z]",
    "\\d{12}",
    "^WARN.*\\d$",
]
COSTLY = [
    "\\w{16}",
    "(?i)oom|kill(ed|er)|exception",
    "\\d{1,3}\\.\\d{1,3}\\.\\d{1,3}\\.\\d{1,3}",
]
FOUND = [
    "12:00:00    INFO a needle in it",
    "12:00:00    INFO one 10.0.0.11 two",
    "12:00:00    INFO step1a 123456789012",
    "WARN abcdefghijklmnopqrst 7",
    "12:00:00    INFO OOM",
]


@pytest.mark.parametrize("pattern", RARE)
def test_only_the_lines_that_may_match_are_looked_at(
    pattern: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    dull = [f"12:00:{n % 60:02}    INFO step {n} reward 0.{n} and so on" for n in range(10_000)]
    block = "\n".join([*dull[:5000], *FOUND, *dull[5000:]]).encode()
    wanted = compile_wanted(LineFilter(search=pattern, is_regex=True))
    places, start, size = Sieve(wanted.clauses).places(block), 0, 0

    while stretch := places.stretch(start):
        start, size = stretch[1] + 1, size + stretch[1] - stretch[0]

    assert 0 < size < len(block) / 50
    assert found(block, wanted)


@pytest.mark.parametrize("pattern", COSTLY)
def test_what_re2_finds_faster_is_left_to_it(pattern: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    dull = b"12:00:00    INFO step 1 reward 0.5 and so on\n" * 10_000
    block = dull + "\n".join(FOUND).encode()
    wanted = compile_wanted(LineFilter(search=pattern, is_regex=True))

    assert Sieve(wanted.clauses).places(block).stretch(0) == (0, len(block))
    assert found(block, wanted)


def test_what_is_everywhere_is_left_to_re2(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    block = b"12:00:00    INFO step 1 reward 0.5\n" * 10_000

    for pattern in ("[a-z]+ \\d+ [a-z]+", "\\d$", "x*"):
        wanted = compile_wanted(LineFilter(search=pattern, is_regex=True))
        assert Sieve(wanted.clauses).places(block).stretch(0) == (0, len(block))


def test_a_block_that_turns_out_crowded_is_looked_at_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.undo()
    dull, full = b"INFO nothing here\n" * 30_000, b"INFO a needle in it\n" * 30_000
    block = full + dull + full
    wanted = compile_wanted(LineFilter(search="needle in"))
    places, start, stretches = Sieve(wanted.clauses).places(block), 0, []

    while stretch := places.stretch(start):
        stretches.append(stretch)
        start = stretch[1] + 1

    assert len(stretches) < 20
    assert sum(end - begin for begin, end in stretches) < 1.2 * 2 * len(full)
    assert len(found(block, wanted)) == 60_000


def test_a_text_of_any_length_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    text = "".join(chr(97 + n % 26) for n in range(5000))
    block = b"INFO nothing here\n" * 1000 + f"INFO {text} and more\n".encode()

    assert len(found(block, compile_wanted(LineFilter(search=text)))) == 1
    assert len(found(block, compile_wanted(LineFilter(search=text[:900], is_regex=True)))) == 1
    assert found(block, compile_wanted(LineFilter(search=f"{text}z"))) == []


@pytest.mark.parametrize("pattern", ["needle", "(?i)[a-z] ?NEEDLE", "straw|needle", "e{2}\\w"])
def test_frames_that_cannot_match_are_known_by_their_bitmaps(pattern: str) -> None:
    bitmaps = [bitmap_of(text) for text in (b"INFO hay\n", b"INFO a Needle, needle\n", b"")]
    wanted = compile_wanted(LineFilter(search=pattern, is_regex=True))

    assert frames_with(wanted.clauses, b"".join(bitmaps), 3) == [False, True, False]


def old_bitmap(text: bytes) -> bytes:
    """Return the bitmap that a release before made of a text."""
    bits = bytearray(8192)
    for three in zip(text, text[1:], text[2:], strict=False):
        place = (int.from_bytes(three, "little") * 0x9E3779B1 & 0xFFFFFFFF) >> 16
        bits[place >> 3] |= 1 << (place & 7)
    return bytes(bits)


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [("needle", [False, True]), ("(?i)NEEDLE", [True, True]), ("(?i)straw", [False, False])],
)
def test_bitmaps_of_the_release_before_are_understood(pattern: str, expected: list[bool]) -> None:
    bitmaps = old_bitmap(b"INFO a Needle\n") + old_bitmap(b"INFO a needle\n")
    wanted = compile_wanted(LineFilter(search=pattern, is_regex=True))

    assert frames_with(wanted.clauses, bitmaps, 2) == expected


def test_bitmaps_of_a_size_that_nobody_knows_leave_nothing_out() -> None:
    assert frames_with([((1 << 97,) * 3,)], b"\0" * 100, 2) == [True, True]
    assert frames_with([((1 << 97,) * 3,)], b"", 2) == [True, True]
