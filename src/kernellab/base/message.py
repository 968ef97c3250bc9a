"""Messages: JSON objects whose fields are declared once, as a dataclass.

A family of messages (the events of a run, the commands to a worker) shares the JSON key that holds the message's name.
The sender constructs and the receiver reads the same class, so a message that is not declared cannot be sent.
"""

from __future__ import annotations

import dataclasses
import typing
from dataclasses import dataclass
from typing import ClassVar, Self

from kernellab.base import shape
from kernellab.base.json import JsonObject, JsonValue

_KEYS = {"pass_name": "pass"}  # fields whose JSON key is a Python keyword


class UnknownMessage(ValueError):
    """No message of this name is declared."""


class DamagedMessage(ValueError):
    """A message lacks a field, or a field has the wrong type."""


@dataclass(frozen=True, kw_only=True)
class Message:
    """The base of all families.

    `class Event(Message, key="event")` starts a family, `class Round(Event, name="round")` declares a message of it.
    """

    name_key: ClassVar[str]
    message_name: ClassVar[str]
    declared: ClassVar[dict[str, type[Message]]]  # the family's messages by name

    def __init_subclass__(cls, *, key: str = "", name: str = "") -> None:
        if key:
            cls.name_key, cls.declared = key, {}
        if name:  # a subclass without a name is a base of further messages
            cls.message_name = name
            cls.declared[name] = cls

    def to_json(self) -> JsonObject:
        """The message as a JSON object. Optional fields that are None are left out."""
        entry: JsonObject = {self.name_key: self.message_name}
        for field in dataclasses.fields(self):
            value: JsonValue = getattr(self, field.name)
            if value is not None or field.default is not None:
                entry[_KEYS.get(field.name, field.name)] = value
        return entry

    @classmethod
    def from_json(cls, entry: JsonObject) -> Self:
        """A message of this class. Unknown keys are ignored, because a newer version may have written them."""
        types = shape.fields(typing.cast(type, cls))
        values = {}
        for field in dataclasses.fields(cls):
            key = _KEYS.get(field.name, field.name)
            if key in entry:
                problem = shape.difference(entry[key], types[field.name], f"`{key}`")
                if problem:
                    raise DamagedMessage(f"`{cls.message_name}`: {problem}")
                values[field.name] = entry[key]
            elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
                raise DamagedMessage(f"`{cls.message_name}` has no `{key}`")
        return cls(**typing.cast("dict[str, typing.Never]", values))

    @classmethod
    def parse(cls, entry: JsonObject) -> Self:
        """The message of this family that a JSON object describes."""
        name = entry.get(cls.name_key)
        if not isinstance(name, str) or name not in cls.declared:
            raise UnknownMessage(f"no {cls.name_key} is named {name!r}")
        message = cls.declared[name].from_json(entry)
        assert isinstance(message, cls)
        return message
