"""Random expressions in SQL, of a wanted type."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

from tests.spark.sql.rotation.rows import POOLS, SIMPLE, Column, literal

_FUNCTIONS = r"""
byte: CAST({int} AS TINYINT) | -{byte} | {byte} + {byte} | {byte} & {byte} | abs({byte}) | try_cast({string} AS TINYINT)
short: CAST({byte} AS SMALLINT) | {short} + {byte} | {short} * {short} | {short} % {short} | CAST({string} AS SMALLINT)
int: {int} + {int} | {int} - {short} | {int} * {int} | {int} % {int} | abs({int}) | -{int} | {int} | {int} & {int} | {int} ^ {int}
int: length({string}) | octet_length({string}) | ascii({string}) | instr({string}, {string}) | locate({string}, {string})
int: bit_length({binary}) | year({date}) | month({date}) | day({date}) | dayofweek({date}) | weekofyear({date}) | datediff({date}, {date})
int: hour({timestamp}) | second({timestamp}) | minute({ntz}) | dayofyear({ntz}) | size({ints}) | size({map})
int: hash({string}, {int}, {double}) | crc32({binary}) % 9 | CAST({string} AS INT) | try_cast({string} AS INT) | CAST({long} AS INT)
int: CAST({double} AS INT) | CAST({bool} AS INT) | {map}['a'] | element_at({ints}, 1) | {ints}[0] | try_element_at({ints}, -1)
int: array_position({texts}, 'a') | sign({int}) | shiftleft({int}, 1) | if({bool}, {int}, {int}) | coalesce({int}, {int literal})
int: nullif({int}, {int literal}) | greatest({int}, {int}) | date_part('DOW', {ntz}) | CASE WHEN {bool} THEN {int} ELSE {int literal} END
int: aggregate({ints}, 0, (a, x) -> a + x) | array_max({ints})
long: {long} + {int} | {long} - {long} | {long} * {long} | {long} % {int} | {int} div {int} | CAST({int} AS BIGINT) | -{long}
long: {long} div {long} | unix_timestamp({timestamp}) | unix_micros({timestamp}) | xxhash64({string}, {date}, {decimal})
long: CAST({timestamp} AS BIGINT) | pmod({long}, 7) | CAST({decimal} AS BIGINT) | CAST({string} AS BIGINT) | bigint({bool}) | {long}
long: CAST({double} AS BIGINT) | try_add({long}, {long}) | ceil({decimal})
float: CAST({double} AS FLOAT) | CAST({int} AS FLOAT) | -{float} | CAST({string} AS FLOAT) | coalesce({float}, {float literal})
double: {double} + {float} | {double} * {double} | {int} / {int} | {double} / {double} | sqrt({double}) | CAST({float} AS DOUBLE)
double: -{double} | abs({double}) | CAST({decimal} AS DOUBLE) | CAST({string} AS DOUBLE) | nanvl({double}, {double})
double: try_divide({double}, {double}) | round({double}, 1) | floor({double})
decimal: {decimal} + {decimal} | {decimal} - {decimal} | {decimal} * {decimal literal} | CAST({int} AS DECIMAL(12, 2)) | -{decimal}
decimal: CAST({wide} AS DECIMAL(12, 2)) | {decimal} / {decimal} | {decimal} % {decimal} | round({decimal}, 1)
decimal: CAST({string} AS DECIMAL(12, 2)) | coalesce({decimal}, {decimal}) | abs({decimal})
wide: {wide} + {wide} | {wide} * {decimal} | CAST({decimal} AS DECIMAL(38, 18)) | {wide} - {int} | {wide} / {wide} | -{wide}
string: upper({string}) | lower({string}) | trim({string}) | concat({string}, {string}) | {string} || {string}
string: substring({string}, {int literal}, 2) | replace({string}, {string literal}, 'z') | reverse({string}) | lpad({string}, 5, '\u00e9')
string: CAST({int} AS STRING) | CAST({double} AS STRING) | left({string}, 1) | CAST({date} AS STRING) | CAST({timestamp} AS STRING)
string: CAST({decimal} AS STRING) | date_format({timestamp}, 'yyyy-MM-dd HH:mm') | hex({binary}) | initcap({string})
string: translate({string}, 'ab', 'ba') | coalesce({string}, '') | CAST({ntz} AS STRING) | CAST({interval} AS STRING) | md5({binary})
string: regexp_replace({string}, '[a-c]', '.') | element_at({texts}, 1) | array_join({texts}, '-') | CASE WHEN {bool} THEN {string} END
string: CAST({binary} AS STRING) | CAST({bool} AS STRING) | CAST({ints} AS STRING) | CAST({map} AS STRING)
string: to_json(struct({int} AS a, {string} AS b)) | date_format({ntz}, 'E HH')
binary: CAST({string} AS BINARY) | concat({binary}, {binary}) | unhex({string}) | substring({binary}, 1, 1) | {binary}
binary: encode({string}, 'UTF-8')
date: date_add({date}, {byte}) | CAST({timestamp} AS DATE) | CAST({ntz} AS DATE) | trunc({date}, 'MM') | last_day({date})
date: CAST({string} AS DATE) | {date} + 1 | make_date(2024, {int}, 1) | next_day({date}, 'MON') | coalesce({date}, {date literal})
date: try_cast({string} AS DATE) | add_months({date}, {byte})
timestamp: date_trunc('day', {timestamp}) | CAST({date} AS TIMESTAMP_LTZ) | {timestamp} + {interval} | CAST({ntz} AS TIMESTAMP_LTZ)
timestamp: {timestamp} - INTERVAL '1' DAY | from_utc_timestamp({timestamp}, 'Asia/Tokyo') | CAST({string} AS TIMESTAMP_LTZ)
timestamp: timestamp_seconds({int}) | date_trunc('hour', {timestamp})
ntz: CAST({timestamp} AS TIMESTAMP_NTZ) | {ntz} + {interval} | CAST({date} AS TIMESTAMP_NTZ) | {ntz} - INTERVAL 1 MONTH
ntz: coalesce({ntz}, {ntz literal})
interval: {timestamp} - {timestamp} | {interval} + {interval} | {interval} * {byte} | -{interval} | {ntz} - {ntz} | {interval} / {int}
ints: array({int}, {int}) | sort_array({ints}) | transform({ints}, x -> x + 1) | filter({ints}, x -> x > 0) | array_distinct({ints})
ints: slice({ints}, 1, 2) | concat({ints}, {ints}) | flatten({lists}) | map_values({map}) | sequence(1, {byte})
ints: array_union({ints}, {ints})
texts: split({string}, 'a') | array({string}, {string}) | map_keys({map}) | array_except({texts}, {texts})
texts: transform({texts}, x -> upper(x))
doubles: transform({doubles}, x -> x * 2) | array({double}, {double})
lists: array({ints}, {ints}) | {lists}
map: map_filter({map}, (k, v) -> v > 0) | map('a', {int}) | {map} | transform_values({map}, (k, v) -> v + 1)
map: map_from_entries(array(struct('b', {int})))
struct: named_struct('p', {int}, 'q', {string}) | struct({long} AS p, {date} AS q)
structs: array(struct({int} AS a, {string} AS b))
bool: {double} IS NULL | isnan({double}) | isnan({float}) | {bool} = {bool} | {bool} <=> {bool} | NOT {bool} | {bool} IS TRUE
bool: {bool} IS NOT TRUE | {bool} IS NOT FALSE | {bool} IS UNKNOWN | {int} IS DISTINCT FROM {int}
bool: {string} IS NOT DISTINCT FROM {string literal} | {bool} AND {bool} | ({bool} OR NULL) = ({int} > 1) | ({byte} >= -128) = {bool}
bool: {bool} = ({int} > 3 AND NULL) | ({byte} < 200) <=> {bool} | ({bool} AND NULL) IS NULL | array_contains({ints}, {int literal})
bool: array_contains({texts}, {string literal}) | array_contains({ints}, {int}) | arrays_overlap({ints}, array(1, 3))
bool: arrays_overlap({texts}, {texts}) | exists({ints}, x -> x > 2) | forall({texts}, x -> x = 'a') | map_contains_key({map}, 'a')
bool: {ints} = {ints} | array_contains({doubles}, {double literal}) | {doubles} = {doubles} | contains({string}, {string})
bool: startswith({string}, {string}) | endswith({string}, 'a') | contains({binary}, X'00') | startswith({binary}, {binary literal})
bool: {string} RLIKE '^[a-z]+$' | {string} RLIKE '\\s' | CAST({string} AS BOOLEAN) | luhn_check({string}) | {string} LIKE {string}
bool: {string} NOT LIKE '%a%' | {string} ILIKE 'A%' | {string} LIKE 'a\\%%' | {string} LIKE ANY ('a%', '%b') | {string} LIKE '_'
bool: {struct} = {struct} | {struct} IS NULL | {map} IS NOT NULL | {structs} IS NULL | {date} = {string literal} | {string} = {int}
bool: {timestamp} > {date} | {timestamp} > {ntz} | {ntz} >= {date} | {decimal} > {double} | {long} = {decimal} | {int} = {double}
bool: {byte} < {long literal} | {float} = {double} | {long} > 3.5 | {int} = 3.0 | {date} > DATE '-0001-01-01'
bool: {timestamp} < TIMESTAMP '+200000-01-01' | {ntz} > TIMESTAMP_NTZ '-100000-01-01' | {date} < '9999' | {byte} = 300 | {short} <> 100000
bool: {int} < 9223372036854775807L | {wide} > {wide literal} | {decimal} = 1.0500 | {decimal} > 1e30 | {wide} = {decimal}
bool: ({int}, {string}) IN ((1, 'a'), (3, '')) | ({int} = 1) IN (true, NULL) | {int} BETWEEN {byte} AND {long}
bool: {string} BETWEEN 'A' AND 'b'
"""
FUNCTIONS: dict[str, list[str]] = {}
"""By type, SQL with places for an expression `{type}` or a constant `{type literal}`."""
for _line in _FUNCTIONS.strip().splitlines():
    _kind, _, _templates = _line.partition(": ")
    FUNCTIONS.setdefault(_kind, []).extend(_templates.split(" | "))
COMPARABLE = [*SIMPLE, "ints", "texts"]


class Expressions:
    """Makes expressions from the columns of one relation."""

    def __init__(self, rng: random.Random, columns: Sequence[Column], case_sensitive: bool, alias: str = "") -> None:
        self.rng = rng
        self.columns = columns
        self.case_sensitive = case_sensitive
        self.alias = alias

    def column(self, *kinds: str) -> str:
        """A column of one of these types, or of any type; NULL of the type if there is none."""
        found = [c for c in self.columns if not kinds or c.kind in kinds]
        if found:
            return self.rng.choice(found).sql(self.rng, self.case_sensitive, self.alias)
        return self.of(kinds[0], 0, False) if kinds[0] not in SIMPLE else literal(self.rng, kinds[0])

    def of(self, kind: str, depth: int, column: bool = True) -> str:
        """An expression of a type, with functions of functions down to a depth."""
        there = column and any(c.kind == kind for c in self.columns)
        roll = self.rng.random()
        if there and (depth <= 0 or roll < 0.5):
            return self.column(kind)
        if kind in SIMPLE and (depth <= 0 or roll < 0.6):
            return literal(self.rng, kind)
        return self.filled(self.rng.choice(FUNCTIONS[kind]), depth - 1)

    def filled(self, template: str, depth: int) -> str:
        """A template with expressions in its places."""

        def filled(place: re.Match[str]) -> str:
            kind, _, what = place[1].partition(" ")
            return literal(self.rng, kind) if what else self.of(kind, depth)

        return "(" + re.sub(r"\{([a-z]+( literal)?)\}", filled, template) + ")" if "{" in template else template

    def comparison(self) -> str:
        """What Spark can push down: a column and a constant."""
        rng, kind = self.rng, self.rng.choice(SIMPLE)
        name, roll = self.column(kind), self.rng.random()
        if roll < 0.5:
            return f"{name} {rng.choice(['=', '<>', '<', '<=', '>', '>=', '<=>'])} {literal(rng, kind)}"
        if roll < 0.6:
            return f"{name} {rng.choice(['', 'NOT '])}BETWEEN {literal(rng, kind)} AND {literal(rng, kind)}"
        if roll < 0.8:
            values = [literal(rng, kind) for _ in range(rng.choice([1, 2, 4, 12]))]
            return f"{name} {rng.choice(['IN', 'NOT IN'])} ({', '.join(values)})"
        return f"{self.column()} IS {rng.choice(['', 'NOT '])}NULL"

    def condition(self, depth: int = 2) -> str:
        """A condition."""
        rng, roll = self.rng, self.rng.random()
        if depth > 0 and roll < 0.45:
            left, right = self.condition(depth - 1), self.condition(depth - 1)
            return rng.choice([f"({left} AND {right})", f"({left} OR {right})", f"NOT ({left})", f"({left}) <=> ({right})"])
        if roll < 0.75:
            return self.comparison()
        if roll < 0.85:
            kind = rng.choice(COMPARABLE)
            return f"{self.of(kind, 1)} {rng.choice(['=', '<>', '<', '>=', '<=>'])} {self.of(kind, 1)}"
        return self.of("bool", 2)

    def any(self, depth: int = 1) -> str:
        """An expression of any type."""
        return self.of(self.rng.choice(list(POOLS)), depth)
