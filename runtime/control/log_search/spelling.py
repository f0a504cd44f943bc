"""A regular expression of RE2's, spelled for a search in blocks and for Python's parser; pure.

Both take a pattern that RE2 has compiled. Only what must be said otherwise is changed.
"""

import re

import re2

# Read left to right: what a class or a quotation holds is none of the words behind them.
_WORD = re.compile(
    r"(?s)\\Q(?P<quoted>.*?)(?:\\E|\Z)"
    r"|(?P<set>\[\^?\]?(?:\[:\^?\w+:\]|\\.|[^\]])*\]|\\[pP](?:\{[^}]*\}|.))"
    r"|(?P<begin>\\A)|(?P<end>\\z)|\\."
    r"|\(\?(?P<on>[A-Za-z]*)(?P<off>-[A-Za-z]*)?(?P<stop>[:)])"
    r"|(?P<brace>\{,)"
)
_ONLY_RE2_READS = re.compile(r"\[:|\\[pP]")
_ONLY_ASCII = re.compile(r"\[(?:\[:\w+:\]|[\w .,:/-])*\]")


def for_lines(pattern: str) -> str:
    """Return a pattern with each word for an end of the text as one for an end of a line."""

    def spelled(match: re.Match[str]) -> str:
        if match["begin"] or match["end"]:
            return "^" if match["begin"] else "$"
        if match["stop"] is None:
            return match[0]
        off = (match["off"] or "-").replace("m", "")
        flags = match["on"].replace("m", "") + (off if off != "-" else "")
        if flags or match["stop"] == ":":
            return f"(?{flags}{match['stop']}"
        # flags are nothing to repeat: what stands behind them repeats what stands before
        return "" if pattern[match.end() :].startswith(("*", "+", "?", "{")) else "(?:)"

    return _WORD.sub(spelled, pattern)


def for_python(pattern: str) -> str:
    """Return a pattern that Python's parser reads as RE2 does, with wider sets in some places."""

    def spelled(match: re.Match[str]) -> str:
        if match["quoted"] is not None:
            return re.escape(match["quoted"])
        if match["brace"]:
            return r"\{,"
        if match["set"] and _ONLY_RE2_READS.search(match["set"]):
            return _members(match["set"])
        return match[0]

    return _WORD.sub(spelled, pattern)


def _members(words: str) -> str:
    """Return a set as RE2 reads it: its ASCII characters one by one, and all others or none."""
    read = re2.compile(words)
    members = [f"\\x{code:02x}" for code in range(128) if read.fullmatch(chr(code)) is not None]
    others = "" if _ONLY_ASCII.fullmatch(words) else r"\x80-\U0010ffff"
    return f"[{''.join(members)}{others}]" if members or others else r"[^\x00-\U0010ffff]"
