"""Where the words of many texts are: the kernels of the tokenizers `icu` and `icu/split`.

Words begin and end by the rules of UAX 29. Characters of scripts without spaces are cut by dictionaries: from each place on, the
longest word is taken that ends between two grapheme clusters, as ICU4X does. Parts without alphanumeric characters are no words.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lance_spark.index.text.analysis.icu_tables import Cluster, Word
from lance_spark.kernels.kernel import kernel

_CR, _LF, _NEWLINE = int(Word.CR), int(Word.LF), int(Word.NEWLINE)
_EXTEND, _ZWJ, _SPACE, _REGIONAL = int(Word.EXTEND), int(Word.ZWJ), int(Word.SPACE), int(Word.REGIONAL_INDICATOR)
_KATAKANA, _HEBREW, _ALETTER, _ALETTER_PICT = int(Word.KATAKANA), int(Word.HEBREW), int(Word.ALETTER), int(Word.ALETTER_PICT)
_SINGLE, _DOUBLE = int(Word.SINGLE_QUOTE), int(Word.DOUBLE_QUOTE)
_MID_NUM_LET, _MID_LETTER, _MID_NUM = int(Word.MID_NUM_LET), int(Word.MID_LETTER), int(Word.MID_NUM)
_NUMERIC, _EXTEND_NUM_LET, _PICT, _DICTIONARY = int(Word.NUMERIC), int(Word.EXTEND_NUM_LET), int(Word.PICT), int(Word.DICTIONARY)
_JOINS, _CONSONANT, _LINKER, _EXTENDS = Cluster.JOINS, Cluster.CONSONANT, Cluster.LINKER, Cluster.EXTENDS


@kernel
def split(
    data: np.ndarray,
    bounds: np.ndarray,
    classes: np.ndarray,
    clusters: np.ndarray,
    languages: np.ndarray,
    alphanumeric: np.ndarray,
    listed: np.ndarray,
    listed_starts: np.ndarray,
    groups: np.ndarray,
    only_alphanumeric: bool,
    starts: np.ndarray,
    ends: np.ndarray,
    texts: np.ndarray,
    places: np.ndarray,
) -> int:
    """The words of the texts, which are UTF-8; with `only_alphanumeric`, the alphanumeric parts of words. See `icu_tables.Tables`."""
    count = 0
    writes = len(starts) > 0
    for text in range(len(bounds) - 1):
        at: Any = bounds[text]
        stop = bounds[text + 1]
        ends_of_words = np.empty(stop - at, np.int64)  # of those that a dictionary cuts at once
        place = 0
        while at < stop:
            if _class(data, at, stop, classes) == _DICTIONARY:
                found = _cut_run(data, at, stop, classes, clusters, languages, listed, listed_starts, groups, ends_of_words)
            else:
                ends_of_words[0] = _end_of_word(data, at, stop, classes)
                found = 1
            for i in range(found):
                end: Any = ends_of_words[i]
                start: Any = at
                while start < end:
                    first = start
                    part, has_any = _part(data, start, end, alphanumeric, only_alphanumeric)
                    start = part
                    if only_alphanumeric and start < end:
                        start = _after(data, start, end)
                    if not has_any:
                        continue
                    if writes:
                        starts[count], ends[count], texts[count], places[count] = first, part, text, place
                    count += 1
                    place += 1
                at = end
    return count


@kernel
def _part(data: np.ndarray, at: int, end: int, alphanumeric: np.ndarray, only_alphanumeric: bool) -> tuple[int, bool]:
    """Where a part of a word ends, and whether it has alphanumeric characters: the word, or what comes before the first other character."""
    has_any = False
    while at < end:
        if alphanumeric[_point(data, at, end)]:
            has_any = True
        elif only_alphanumeric:
            break
        at = _after(data, at, end)
    return at, has_any


@kernel
def _width(first: Any) -> int:
    return 1 if first < 0xC0 else 2 if first < 0xE0 else 3 if first < 0xF0 else 4


@kernel
def _after(data: np.ndarray, at: Any, stop: Any) -> Any:
    """Where the character after one begins; bytes that are no UTF-8 are characters of some kind."""
    return min(at + _width(data[at]), stop)


@kernel
def _point(data: np.ndarray, at: int, stop: int) -> Any:
    first = np.int64(data[at])
    width = _width(first)
    if width == 1 or at + width > stop:
        return first
    point = first & (0x7F >> width)
    for i in range(1, width):
        point = point << 6 | (np.int64(data[at + i]) & 0x3F)
    return min(point, 0x10FFFF)


@kernel
def _class(data: np.ndarray, at: int, stop: int, classes: np.ndarray) -> Any:
    return np.int64(classes[_point(data, at, stop)])


@kernel
def _is_letter(kind: int) -> bool:
    return kind in (_ALETTER, _ALETTER_PICT, _HEBREW)


@kernel
def _end_of_word(data: np.ndarray, at: int, stop: int, classes: np.ndarray) -> Any:
    """The end of a word that does not begin with a character of a dictionary (UAX 29, 4.1.1)."""
    left = _class(data, at, stop, classes)
    after: Any = _after(data, at, stop)
    if left == _CR and after < stop and data[after] == 10:
        return after + 1  # WB3
    if left in (_CR, _LF, _NEWLINE):
        return after  # WB3a
    direct = left
    is_odd = True  # the number of regional indicators up to here
    while after < stop:
        right = _class(data, after, stop, classes)
        if right in (_CR, _LF, _NEWLINE, _DICTIONARY):
            return after
        if right in (_EXTEND, _ZWJ):  # WB4
            direct = right
            after = _after(data, after, stop)
            continue
        following = _after(data, after, stop)
        is_pair = left == _REGIONAL and right == _REGIONAL and is_odd  # WB15, WB16
        is_picture = direct == _ZWJ and right in (_PICT, _ALETTER_PICT)  # WB3c
        is_space = direct == _SPACE and right == _SPACE  # WB3d
        is_parted = left == _KATAKANA and direct == _ZWJ and right == _EXTEND_NUM_LET  # as ICU4X
        if is_pair:
            is_odd = False
        elif not (is_picture or is_space or (_belong_together(left, right) and not is_parted)):
            joined = _after_middle(data, left, right, following, stop, classes)
            if joined > 0:
                following = _after(data, joined, stop)
                right = _class(data, joined, stop, classes)
            elif not (left == _HEBREW and right == _SINGLE):  # WB7a
                return after
        left = direct = right
        after = following
    return stop


@kernel
def _belong_together(left: int, right: int) -> bool:
    if _is_letter(left):
        return _is_letter(right) or right == _NUMERIC or right == _EXTEND_NUM_LET  # WB5, WB9, WB13a
    if left == _NUMERIC:
        return right == _NUMERIC or _is_letter(right) or right == _EXTEND_NUM_LET  # WB8, WB10, WB13a
    if left == _KATAKANA:
        return right == _KATAKANA or right == _EXTEND_NUM_LET  # WB13, WB13a
    if left == _EXTEND_NUM_LET:
        return right == _EXTEND_NUM_LET or _is_letter(right) or right == _NUMERIC or right == _KATAKANA  # WB13a, WB13b
    return False


@kernel
def _after_middle(data: np.ndarray, left: int, middle: int, at: Any, stop: int, classes: np.ndarray) -> int:
    """The place of the character after one that joins letters or digits on both of its sides (WB6 to WB12); -1 if it does not."""
    joins_letters = _is_letter(left) and (middle in (_MID_LETTER, _MID_NUM_LET, _SINGLE))
    joins_hebrew = left == _HEBREW and middle == _DOUBLE
    joins_digits = left == _NUMERIC and (middle in (_MID_NUM, _MID_NUM_LET, _SINGLE))
    if not (joins_letters or joins_hebrew or joins_digits):
        return -1
    while at < stop:
        right = _class(data, at, stop, classes)
        if right not in (_EXTEND, _ZWJ):
            is_joined = (joins_letters and _is_letter(right)) or (joins_hebrew and right == _HEBREW)
            return at if is_joined or (joins_digits and right == _NUMERIC) else -1
        at = _after(data, at, stop)
    return -1


@kernel
def _cut_run(
    data: np.ndarray,
    at: int,
    stop: int,
    classes: np.ndarray,
    clusters: np.ndarray,
    languages: np.ndarray,
    listed: np.ndarray,
    listed_starts: np.ndarray,
    groups: np.ndarray,
    ends: np.ndarray,
) -> int:
    """Cut the characters of dictionaries that begin at a place, a language after the other; the number of words, whose ends are set.

    A dictionary leaves what follows its last word: it belongs to the first word of the next language, or else the caller cuts it again.
    """
    end: Any = at
    while end < stop and _class(data, end, stop, classes) == _DICTIONARY:
        end = _after(data, end, stop)
    count = 0
    first: Any = at
    while first < end:
        language = np.int64(languages[_point(data, first, end)])
        last: Any = first
        while last < end and languages[_point(data, last, end)] == language:
            last = _after(data, last, end)
        if language == 0:
            ends[count] = last
            count += 1
        else:
            low, high = groups[language - 1], groups[language]
            count = _cut(data, first, last, clusters, listed, listed_starts, low, high, ends, count)
        first = last
    if count == 0:
        ends[0] = end
        count = 1
    return count


@kernel
def _cut(
    data: np.ndarray,
    begin: int,
    stop: int,
    clusters: np.ndarray,
    listed: np.ndarray,
    listed_starts: np.ndarray,
    first_word: int,
    last_word: int,
    ends: np.ndarray,
    count: int,
) -> int:
    """Cut a part of a text by the words of one dictionary, as ICU4X does: the number of words with those before."""
    cluster: Any = begin  # the next boundary of grapheme clusters that was not asked for
    at: Any = begin
    while at < stop:
        low: Any = first_word
        high: Any = last_word
        depth = 0
        matched: Any = -1
        boundary: Any = begin
        has_prefix = False
        end: Any = -1
        while at < stop and end < 0:
            width = _after(data, at, stop) - at
            low, high = _narrowed(data, at, width, listed, listed_starts, low, high, depth)
            at += width
            depth += width
            if low == high:
                end = matched if matched > 0 else at
            elif listed_starts[low + 1] - 1 - listed_starts[low] > depth:
                has_prefix = True
            elif high - low == 1:
                end = at
            else:
                while boundary < at:
                    boundary = cluster
                    if cluster >= stop:
                        break
                    cluster = _end_of_cluster(data, cluster, stop, clusters)
                if boundary == at:
                    matched = at
        if end < 0:  # the part ends within a word
            if matched < 0 and not has_prefix:
                return count
            ends[count] = matched if matched > 0 else stop
            return count + 1
        ends[count] = end
        count += 1
        at = end
    return count


@kernel
def _narrowed(
    data: np.ndarray, at: int, width: int, listed: np.ndarray, listed_starts: np.ndarray, low: int, high: int, depth: int
) -> tuple[int, int]:
    """Of some sorted words, those that have the bytes of a character at `depth`, up to which all are equal."""
    for i in range(width):
        wanted = data[at + i]
        low = _first_with(wanted, listed, listed_starts, low, high, depth + i)
        if wanted == 0xFF:
            return low, low
        high = _first_with(wanted + 1, listed, listed_starts, low, high, depth + i)
    return low, high


@kernel
def _first_with(wanted: int, listed: np.ndarray, listed_starts: np.ndarray, low: int, high: int, depth: int) -> int:
    """The first word whose byte at `depth` is not below a number. A word that ends there has a line feed."""
    while low < high:
        middle = (low + high) >> 1
        if listed[listed_starts[middle] + depth] < wanted:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def _end_of_cluster(data: np.ndarray, at: int, stop: int, clusters: np.ndarray) -> Any:
    """The end of a grapheme cluster of the scripts that dictionaries are for (UAX 29, GB9, GB9a and GB9c)."""
    flags = np.int64(clusters[_point(data, at, stop)])
    after: Any = _after(data, at, stop)
    follows_consonant = flags & _CONSONANT != 0
    follows_linker = False
    while after < stop:
        flags = np.int64(clusters[_point(data, after, stop)])
        if flags & _JOINS:
            follows_consonant = follows_consonant and flags & (_LINKER | _EXTENDS) != 0
            follows_linker = follows_consonant and (follows_linker or flags & _LINKER != 0)
        elif follows_linker and flags & _CONSONANT:
            follows_linker = False
        else:
            return after
        after = _after(data, after, stop)
    return stop
