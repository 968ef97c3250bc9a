"""The types of JSON documents whose fields are not declared."""

from __future__ import annotations

from typing import TypeAlias, Union

JsonValue: TypeAlias = Union[str, int, float, bool, list["JsonValue"], dict[str, "JsonValue"], None]  # noqa: UP007
JsonObject: TypeAlias = dict[str, JsonValue]
