"""The kernel that builds a graph of vectors; see `graph`."""

from __future__ import annotations

import numpy as np

from lance_spark.index.vector.compared import BIT_COUNTS, DOT, HAMMING
from lance_spark.kernels.kernel import kernel, summing


@summing
def between(how: int, points: np.ndarray, a: int | np.int64, b: int | np.int64) -> np.float32:
    """The distance of the rows `a` and `b`: squared l2, `1 - a.b` (DOT) or differing bits (HAMMING)."""
    width, total = points.shape[1], np.float32(0)
    if how == HAMMING:
        bits = 0
        for j in range(width):
            bits += BIT_COUNTS[np.uint8(points[a, j]) ^ np.uint8(points[b, j])]
        return np.float32(bits)
    if how == DOT:
        for j in range(width):
            total += np.float32(points[a, j]) * np.float32(points[b, j])
        return np.float32(1) - total
    for j in range(width):
        apart = np.float32(points[a, j]) - np.float32(points[b, j])
        total += apart * apart
    return total


@kernel
def put_in_order(ids: np.ndarray, distances: np.ndarray, count: int, one: int | np.int64, distance: np.float32) -> int:
    """Put a vector in its place among `count` ones that are in order of their distances, as long as there is room; returns the place.

    The last one is lost if there is no room; `len(ids)` is returned if that is the new one.
    """
    room = len(ids)
    if count == room and not distance < distances[room - 1]:
        return room
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        if distances[middle] <= distance:
            low = middle + 1
        else:
            high = middle
    for i in range(min(count, room - 1), low, -1):
        ids[i] = ids[i - 1]
        distances[i] = distances[i - 1]
    ids[low] = one
    distances[low] = distance
    return low


@kernel
def choose(how: int, points: np.ndarray, ids: np.ndarray, distances: np.ndarray, count: int, least: int, most: int) -> int:
    """Move those of `count` vectors to the front that get edges, at most `most`; returns their number.

    A vector that is nearer to a chosen one than to the vector whose edges these are is reached through that one: it is chosen only if
    less than `least` others are.
    """
    if count <= most:
        return count
    chosen, left = 0, 0
    others, apart = np.empty(least, np.uint32), np.empty(least, np.float32)
    for i in range(count):
        if chosen == most:
            break
        good = True
        for j in range(chosen):
            if between(how, points, np.int64(ids[i]), np.int64(ids[j])) < distances[i]:
                good = False
                break
        if good:
            ids[chosen] = ids[i]
            distances[chosen] = distances[i]
            chosen += 1
        elif left < least:
            others[left] = ids[i]
            apart[left] = distances[i]
            left += 1
    for i in range(max(min(left, least - chosen), 0)):
        put_in_order(ids, distances, chosen, np.int64(others[i]), apart[i])
        chosen += 1
    return chosen


@kernel
def search_level(
    how: int,
    points: np.ndarray,
    one: int,
    neighbours: np.ndarray,
    counts: np.ndarray,
    rows: np.ndarray,
    shift: int,
    met: np.ndarray,
    mark: int,
    found: np.ndarray,
    distances: np.ndarray,
    count: int,
) -> int:
    """Walk from the `count` vectors that are found to nearer ones, until the neighbours of all that are kept were met; their new number.

    The edges of vector i are in the row `rows[i] + shift`. What was met has the `mark` in `met`.
    """
    visited = np.zeros(len(found), np.bool_)
    for i in range(count):
        met[np.int64(found[i])] = mark
    at = 0
    while at < count:
        if visited[at]:
            at += 1
            continue
        visited[at] = True
        row = rows[np.int64(found[at])] + shift
        least = at + 1
        for k in range(counts[row]):
            other = np.int64(neighbours[row, k])
            if met[other] == mark:
                continue
            met[other] = mark
            place = put_in_order(found, distances, count, other, between(how, points, one, other))
            if place < len(found):
                for i in range(min(count, len(found) - 1), place, -1):
                    visited[i] = visited[i - 1]
                visited[place] = False
                count = min(count + 1, len(found))
                least = min(least, place)
        at = least
    return count


@kernel
def connect(
    how: int,
    points: np.ndarray,
    one: int,
    ids: np.ndarray,
    distances: np.ndarray,
    chosen: int,
    neighbours: np.ndarray,
    apart: np.ndarray,
    counts: np.ndarray,
    rows: np.ndarray,
    shift: int,
) -> None:
    """Store edges from the vector `one` to the `chosen` ones and back; a vector with too many edges keeps those of `choose`."""
    width = neighbours.shape[1]
    own = rows[one] + shift
    all_ids, all_distances = np.empty(width + 1, np.uint32), np.empty(width + 1, np.float32)
    for i in range(chosen):
        neighbours[own, i] = ids[i]
        apart[own, i] = distances[i]
    counts[own] = chosen
    for i in range(chosen):
        row = rows[np.int64(ids[i])] + shift
        count = counts[row]
        for k in range(count):
            all_ids[k] = neighbours[row, k]
            all_distances[k] = apart[row, k]
        put_in_order(all_ids, all_distances, count, one, distances[i])
        count = choose(how, points, all_ids, all_distances, count + 1, width // 2, width)
        for k in range(count):
            neighbours[row, k] = all_ids[k]
            apart[row, k] = all_distances[k]
        counts[row] = count


@kernel
def join_graph(
    how: int,
    points: np.ndarray,
    heights: np.ndarray,
    above: np.ndarray,
    base: np.ndarray,
    base_apart: np.ndarray,
    base_counts: np.ndarray,
    upper: np.ndarray,
    upper_apart: np.ndarray,
    upper_counts: np.ndarray,
    keep: int,
) -> int:
    """Build the graph of all `points`, of which there is one at least; returns the vector where a search begins.

    `base` (uint32) gets the neighbours of each vector in the lowest level, `base_apart` (float32) their distances and `base_counts` (int64)
    their number. `upper` and so on are those of the higher levels: vector i, which has `heights[i]` of them, has them from row `above[i]`.
    Of the `keep` nearest vectors that a search finds, neighbours are chosen.
    """
    count = points.shape[0]
    met, rows = np.full(count, -1, np.int64), np.arange(count)
    found, distances = np.empty(max(keep, 1), np.uint32), np.empty(max(keep, 1), np.float32)
    single, single_distance = np.empty(1, np.uint32), np.empty(1, np.float32)
    entry, mark = 0, 0
    for one in range(1, count):
        single[0], single_distance[0] = entry, between(how, points, one, entry)
        for level in range(heights[entry], heights[one], -1):
            mark += 1
            search_level(how, points, one, upper, upper_counts, above, level - 1, met, mark, single, single_distance, 1)
        found[0], distances[0], there = single[0], single_distance[0], 1
        for level in range(min(heights[one], heights[entry]), -1, -1):
            mark += 1
            if level:
                there = search_level(how, points, one, upper, upper_counts, above, level - 1, met, mark, found, distances, there)
                ids, own = found[:there].copy(), distances[:there].copy()
                chosen = choose(how, points, ids, own, there, upper.shape[1] * 3 // 4, upper.shape[1])
                connect(how, points, one, ids, own, chosen, upper, upper_apart, upper_counts, above, level - 1)
            else:
                there = search_level(how, points, one, base, base_counts, rows, 0, met, mark, found, distances, there)
                ids, own = found[:there].copy(), distances[:there].copy()
                chosen = choose(how, points, ids, own, there, upper.shape[1] * 3 // 4, upper.shape[1])
                connect(how, points, one, ids, own, chosen, base, base_apart, base_counts, rows, 0)
        if heights[one] > heights[entry]:
            entry = one
    return entry
