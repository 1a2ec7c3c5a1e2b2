"""An option is a field of a dataclass, whose metadata says all there is to know of it.

    @dataclass(frozen=True)
    class Reading:
        limit: int | None = option(None, "count", "Maximum number of rows.", aliases=("max_rows",))

Parsers, the arguments of verbs and procedures, and docs/options.md come from these fields.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from typing import Any, Literal, TypeVar

from lance_spark.errors import InvalidOptionError
from lance_spark.options.values import Kind, value_of

Use = Literal["new table", "later writes", "noted", "batch", "stream", "place", "version", "search", "of search", "join", "how"]
"""What an option is for, where this has consequences:

- "new table": it says how a new table is written, so that properties of a table can give it, too;
- "later writes": it also applies to later writes of such a table;
- "noted": it is stored in the transaction of every change, with rows or without;
- "batch": it does not apply to streams; "stream": it applies to nothing else;
- "place": it tells which table is opened, and how, so that verbs take it;
- "version": it chooses the version that is read;
- "search": it makes a search of a read; "of search": it needs one of these;
- "join": it applies to joins by nearness;
- "how": it says how rows are read, not which ones, so that a write may be given it.
"""
T = TypeVar("T")
_OPTION = "option"


@dataclass(frozen=True)
class NotWith:
    """Options that cannot be given together with one that has this rule.

    They are alternatives, for which there may be an `advice`, or they have nothing to do with each
    other, `because` of something. A flag that is false excludes nothing.
    """

    others: tuple[str, ...]
    advice: str = ""
    because: str = ""

    def check(self, name: str, values: Mapping[str, Any]) -> None:
        """Raise InvalidOptionError if values have one of the others."""
        found = [other for other in self.others if other in values]
        if not found:
            return
        if self.because:
            raise InvalidOptionError(f"the options {name} and {found[0]} cannot be combined; {self.because}")
        advice = f"; {self.advice}" if self.advice else ""
        raise InvalidOptionError(f"give only one of the options {', '.join([name, *found])}{advice}")


@dataclass(frozen=True)
class Option:
    """How users give a field as text: its name, other names of it, what it says, and its meaning.

    `least` is the smallest count. `words` are those that the kind "word" allows, and that a count
    allows besides numbers.
    """

    name: str
    kind: Kind
    help: str
    aliases: tuple[str, ...] = ()
    least: int = 0
    words: tuple[str, ...] = ()
    use: tuple[Use, ...] = ()
    not_with: tuple[NotWith, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The name and the aliases."""
        return self.name, *self.aliases

    def value(self, key: str, text: str) -> Any:
        """The value that a text stands for; `key` is the name that was given for messages.

        Raises InvalidOptionError.
        """
        try:
            return value_of(self.kind, text, self.least, self.words)
        except ValueError as e:
            raise InvalidOptionError(f"the option {key!r} takes {e}, not {text!r}") from None


def option(
    default: Any,
    kind: Kind,
    help: str,
    *,
    name: str = "",
    aliases: tuple[str, ...] = (),
    least: int = 0,
    words: tuple[str, ...] = (),
    use: tuple[Use, ...] = (),
    not_with: tuple[NotWith, ...] = (),
) -> Any:
    """A field of a dataclass that is an option, with the field's name unless another is given."""
    said = Option(name, kind, help, aliases, least, words, use, not_with)
    has_hash = None if kind not in ("JSON", "words or JSON") else False
    return field(default=default, hash=has_hash, metadata={_OPTION: said})


def options_of(cls: type) -> Mapping[str, Option]:
    """The options among the fields of a dataclass, by field."""
    return _options_of(cls)


@cache
def _options_of(cls: type) -> Mapping[str, Option]:
    # Each plan of a read asks for them.
    said = {f.name: f.metadata[_OPTION] for f in fields(cls) if _OPTION in f.metadata}
    return {name: replace(o, name=o.name or name) for name, o in said.items()}


def used(cls: type, use: Use) -> tuple[str, ...]:
    """The names of those options of a dataclass that have a use."""
    return tuple(o.name for o in options_of(cls).values() if use in o.use)


def check_together(known: Iterable[Option], values: Mapping[str, Any]) -> None:
    """Raise InvalidOptionError for values, by the names of options, that cannot be given together."""
    for o in known:
        if o.name in values and values[o.name] is not False:
            for rule in o.not_with:
                rule.check(o.name, values)


def made(cls: type[T], values: Mapping[str, Any], **others: Any) -> T:
    """The dataclass with those values, by the names of options, that it has fields for, and others."""
    own = {name: values[o.name] for name, o in options_of(cls).items() if o.name in values}
    return cls(**own, **others)


def changed(options: Any) -> dict[str, Any]:
    """The options of a dataclass that have other values than their defaults, by name."""
    cls = type(options)
    # A default is also an attribute of the class.
    values = {name: getattr(options, name) for name in options_of(cls)}
    return {options_of(cls)[name].name: value for name, value in values.items() if value != getattr(cls, name)}
