"""Renders a document from a template: styles, scripts and data inside one file, under a policy that loads nothing.

A template extends `base.html`. Values are cut and escaped unless they are `Markup`, which only trusted code may make.
Pages of a server may `allow` more: forms and events from the same server.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import unescape
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from kernellab.base.text import printable_lines
from kernellab.reporting.html.parts import MOST_CHARACTERS, asset, deflated, json_in_script, source_hash

_BASE = Path(__file__).with_name("templates")
_POLICY = re.compile(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">')  # as in base.html


@dataclass(frozen=True)
class Sources:
    """What a document contains besides its text: styles and scripts in order, and data that scripts read by name.

    `packed` are large scripts, by id: a script unpacks and starts them, so that the page can be read before.
    `frame_scripts` are the scripts of documents that stand in frames of this one: its policy holds for them too.
    """

    styles: Sequence[str] = ()
    scripts: Sequence[str] = ()
    packed: Mapping[str, str] = field(default_factory=dict)
    frame_scripts: Sequence[str] = ()
    data: Mapping[str, object] = field(default_factory=dict)


def render(
    folder: Path,
    template: str,
    sources: Sources,
    *,
    allow: Mapping[str, str] | None = None,
    home: str = "",
    **values: object,
) -> str:
    """The document that a template of `folder` describes. `values` must contain `title`.

    `allow` replaces directives of the policy. `home`: the address of the list of runs, where a server shows the page.
    """
    environment = Environment(
        loader=FileSystemLoader([folder, _BASE]),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    scripts = [_script(text) for text in (asset(__file__, "theme.js"), *sources.scripts)]
    policy = {
        "default-src": "'none'",
        "script-src": " ".join(
            source_hash(text) for text in (*scripts, *sources.packed.values(), *sources.frame_scripts)
        ),
        # Charts set the styles of what they draw. A style can load nothing, because no other source is allowed.
        "style-src": "'unsafe-inline'",
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
        **(allow or {}),
    }
    return environment.get_template(template).render(
        **values,
        home=home,
        policy=escape("; ".join(f"{name} {sources}" for name, sources in policy.items())),
        styles=[Markup(text) for text in (asset(__file__, "base.css"), *sources.styles)],
        scripts=[Markup(text) for text in scripts],
        packed={name: Markup(deflated(text)) for name, text in sources.packed.items()},
        data={name: Markup(json_in_script(value)) for name, value in sources.data.items()},
    )


def policy_of(document: str) -> str:
    """The security policy of a rendered document: a server also sends it as a header."""
    match = _POLICY.search(document)
    if match is None:
        raise ValueError("the document has no security policy")
    return unescape(match[1])


def _shown(value: object) -> object:
    """A value of a template: texts have no control characters, and no more characters than a reader can use."""
    if not isinstance(value, str) or isinstance(value, Markup):
        return value
    return printable_lines(value if len(value) <= MOST_CHARACTERS else f"{value[:MOST_CHARACTERS]}…")


def _script(text: str) -> str:
    """A script as it may stand in a document."""
    if "</script" in text.lower():
        raise ValueError("a script contains the end tag of its own element")
    return text
