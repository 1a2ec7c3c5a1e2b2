"""Make the data of the tokenizers `icu` and `icu/split`: dictionaries of ICU 78, and properties of characters in Unicode 17.

    pip download --no-deps icu4py==1.2.0 && python -m zipfile -e icu4py-*.whl FOLDER
    pip install regex==2025.10.23  # has Unicode 17
    python scripts/icu_tables.py FOLDER lance_spark/index/text/analysis

Dictionaries are tries, of 16-bit units ("UCharsTrie") or bytes ("BytesTrie"), as ICU documents them.
"""

from __future__ import annotations

import itertools
import lzma
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

import regex

from lance_spark.index.text.analysis.icu_tables import LANGUAGES

_COMPLEX = r"\p{Script=Han}\p{Script=Hiragana}\p{LB=SA}"
_WORD = {
    "CR": r"\r",
    "LF": r"\n",
    "NEWLINE": r"\p{WB=Newline}",
    "EXTEND": rf"[[\p{{WB=Extend}}\p{{WB=Format}}]--[{_COMPLEX}]]",
    "ZWJ": r"\p{WB=ZWJ}",
    "REGIONAL_INDICATOR": r"\p{WB=Regional_Indicator}",
    "KATAKANA": r"\p{WB=Katakana}",
    "HEBREW": r"\p{WB=Hebrew_Letter}",
    "ALETTER": r"[\p{WB=ALetter}--\p{Extended_Pictographic}]",
    "ALETTER_PICT": r"[\p{WB=ALetter}&&\p{Extended_Pictographic}]",
    "SINGLE_QUOTE": r"\p{WB=Single_Quote}",
    "DOUBLE_QUOTE": r"\p{WB=Double_Quote}",
    "MID_NUM_LET": r"\p{WB=MidNumLet}",
    "MID_LETTER": r"[\p{WB=MidLetter}--:\ufe55\uff1a]",  # ICU parts words at colons
    "MID_NUM": r"\p{WB=MidNum}",
    "NUMERIC": r"\p{WB=Numeric}",
    "EXTEND_NUM_LET": r"\p{WB=ExtendNumLet}",
    "SPACE": r"\p{WB=WSegSpace}",
    "PICT": r"[\p{Extended_Pictographic}--\p{WB=ALetter}]",
    "DICTIONARY": rf"[[{_COMPLEX}]--\u19da]",
}
"""Later classes take characters from earlier ones."""
_CLUSTER = {
    "JOINS": r"[\p{GCB=Extend}\p{GCB=ZWJ}\p{GCB=SpacingMark}]",
    "CONSONANT": r"\p{InCB=Consonant}",
    "LINKER": r"\p{InCB=Linker}",
    "EXTENDS": r"\p{InCB=Extend}",
}
_LANGUAGE = {
    "thai": "e01-e3a e40-e4e",
    "lao": "e81 e82 e84 e86-e8a e8c-ea3 ea5 ea7-ebd ec0-ec4 ec6 ec8-ece edc-edf",
    "khmer": "1780-17d3 17d7 17dc 17dd",
    "burmese": "1000-103f 1050-108f 109a-109f a9e0-a9ef a9fa-a9fe aa60-aa7f",
    "cj": "2e80-2eff 2f00-2fdf 3040-30ff 31f0-31ff 32d0-32fe 3400-4dbf 4e00-9fff f900-faff ff66-ff9d 16fe2-16fe3 16ff0-16ff1"
    " 1aff0-1b16f 1f200 20000-2fa1f 30000-3134f",
}
"""Which dictionary a character belongs to, in ICU4X."""


def main(folder: Path, into: Path) -> None:
    """Write the tables and the license."""
    files = icu_files(next(folder.glob("icu4py.libs/libicudata*")).read_bytes())
    lines = [f"word {name} {ranges(pattern)}" for name, pattern in _WORD.items()]
    lines += [f"cluster {name} {ranges(pattern)}" for name, pattern in _CLUSTER.items()]
    lines += [f"language {name} {characters}" for name, characters in _LANGUAGE.items()]
    listed = [sorted(words_of(files[f"{name}dict.dict"])) for name in LANGUAGES]
    lines += [f"count {name} {len(words)}" for name, words in zip(LANGUAGES, listed)]
    text = "\n".join([*lines, "", *(word for words in listed for word in words), ""])
    (into / "icu_tables.xz").write_bytes(lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME))
    (into / "LICENSE-ICU").write_bytes(next(folder.glob("icu4py-*/licenses/LICENSE-ICU")).read_bytes())


def ranges(pattern: str) -> str:
    """The code points that a pattern of the package regex matches."""
    everything = "".join(" " if 0xD800 <= i < 0xE000 else chr(i) for i in range(0x110000))
    found: list[list[int]] = []
    for match in regex.finditer(f"(?V1){pattern}", everything):
        point = match.start()
        if 0xD800 <= point < 0xE000:
            continue
        if found and found[-1][1] == point - 1:
            found[-1][1] = point
        else:
            found.append([point, point])
    return " ".join(f"{first:x}" if first == last else f"{first:x}-{last:x}" for first, last in found)


def icu_files(data: bytes) -> dict[str, bytes]:
    """The files for breaking texts in an ICU data package ("CmnD")."""
    start = data.index(b"CmnD") - 12
    table = start + struct.unpack_from("<H", data, start)[0]
    places = [struct.unpack_from("<II", data, table + 4 + 8 * i) for i in range(struct.unpack_from("<I", data, table)[0])]
    files: dict[str, bytes] = {}
    for (name_at, first), (_, last) in itertools.pairwise(places):
        name = data[table + name_at : data.index(b"\0", table + name_at)].decode()
        if "/brkitr/" in name:
            files[name.rpartition("/")[2]] = data[table + first : table + last]
    return files


def words_of(file: bytes) -> list[str]:
    """The words of a dictionary file."""
    begin = struct.unpack_from("<H", file, 0)[0]
    offset, _, _, size, kind, transform, _, _ = struct.unpack_from("<8i", file, begin)
    trie = file[begin + offset : begin + size]
    if kind & 7 == 1:
        units = Units(struct.unpack(f"<{len(trie) // 2}H", trie[: len(trie) // 2 * 2]))
        return [struct.pack(f"<{len(word)}H", *word).decode("utf-16-le") for word in units.words(0, ())]
    first = transform & 0x1FFFFF
    joiners = {0xFF: "\u200d", 0xFE: "\u200c"}
    return ["".join(joiners.get(b) or chr(first + b) for b in word) for word in Bytes(tuple(trie)).words(0, ())]


class Trie:
    """What both forms have in common: linear parts, branches, and values, which only tell where words end."""

    linear: int
    value: int

    def __init__(self, units: tuple[int, ...]) -> None:
        self.units = units

    def words(self, at: int, before: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        """The words below the node at a place."""
        lead = self.units[at]
        at += 1
        while True:
            if lead < self.linear:
                length = lead + 1 if lead else self.units[at] + 1
                yield from self.branch(at + (lead == 0), length, before)
                return
            if lead < self.value:
                size = lead - self.linear + 1
                before += self.units[at : at + size]
                at += size
            else:
                yield before
                at, final, lead = self.after_value(at, lead)
                if final:
                    return
                if lead >= 0:
                    continue
            lead = self.units[at]
            at += 1

    def branch(self, at: int, length: int, before: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        """The words below a branch with so many children: a tree of comparisons, with lists of five at most."""
        while length > 5:
            at, delta = self.delta(at + 1)
            yield from self.branch(at + delta, length >> 1, before)
            length -= length >> 1
        for _ in range(length - 1):
            word = (*before, self.units[at])
            at, final, delta = self.child(at + 1)
            if final:
                yield word
            else:
                yield from self.words(at + delta, word)
        yield from self.words(at + 1, (*before, self.units[at]))

    def after_value(self, at: int, lead: int) -> tuple[int, bool, int]:
        """The place after a value, whether it is final, and the lead of the node that shares its unit, or -1."""
        raise NotImplementedError

    def child(self, at: int) -> tuple[int, bool, int]:
        """The place after the value of a child in a list, whether it is final, and the value, which else is a distance."""
        raise NotImplementedError

    def delta(self, at: int) -> tuple[int, int]:
        """The place after a distance, and the distance."""
        raise NotImplementedError


class Units(Trie):
    """A trie of 16-bit units."""

    linear, value = 0x30, 0x40

    def after_value(self, at: int, lead: int) -> tuple[int, bool, int]:
        if lead & 0x8000:
            return at, True, -1
        more = 0 if lead < 0x4040 else 1 if lead < 0x7FC0 else 2
        return at + more, False, lead & 0x3F

    def child(self, at: int) -> tuple[int, bool, int]:
        lead = self.units[at] & 0x7FFF
        more = 0 if lead < 0x4000 else 1 if lead < 0x7FFF else 2
        high = (lead, lead - 0x4000, 0)[more]
        return at + 1 + more, self.units[at] >= 0x8000, self._number(at + 1, more, high)

    def delta(self, at: int) -> tuple[int, int]:
        lead = self.units[at]
        more = 0 if lead < 0xFC00 else 1 if lead < 0xFFFF else 2
        return at + 1 + more, self._number(at + 1, more, (lead, lead - 0xFC00, 0)[more])

    def _number(self, at: int, more: int, high: int) -> int:
        for unit in self.units[at : at + more]:
            high = high << 16 | unit
        return high


class Bytes(Trie):
    """A trie of bytes."""

    linear, value = 0x10, 0x20

    def after_value(self, at: int, lead: int) -> tuple[int, bool, int]:
        return at + self._more(lead >> 1), bool(lead & 1), -1

    def child(self, at: int) -> tuple[int, bool, int]:
        lead = self.units[at] >> 1
        more = self._more(lead)
        high = (lead - 0x10, lead - 0x51, lead - 0x6C, 0, 0)[more]
        return at + 1 + more, bool(self.units[at] & 1), self._number(at + 1, more, high)

    def delta(self, at: int) -> tuple[int, int]:
        lead = self.units[at]
        more = 0 if lead < 0xC0 else 1 if lead < 0xF0 else 2 if lead < 0xFE else lead - 0xFB
        return at + 1 + more, self._number(at + 1, more, (lead, lead - 0xC0, lead - 0xF0, 0, 0)[more])

    def _more(self, lead: int) -> int:
        return 0 if lead < 0x51 else 1 if lead < 0x6C else 2 if lead < 0x7E else lead - 0x7B

    def _number(self, at: int, more: int, high: int) -> int:
        for unit in self.units[at : at + more]:
            high = high << 8 | unit
        return high


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
