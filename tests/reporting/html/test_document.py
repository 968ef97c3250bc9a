"""Documents escape their values, carry their data, and allow no script but their own."""

import base64
import re
import zlib
from html import unescape

import pytest
from jinja2 import UndefinedError

from kernellab.reporting.html.document import Sources, policy_of, render
from kernellab.reporting.html.parts import source_hash

TEMPLATE = '{% extends "base.html" %}{% block main %}<p id="name">{{ name }}</p>{% endblock %}'


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "page.html").write_text(TEMPLATE)
    return tmp_path


def test_values_are_escaped(folder):
    text = render(folder, "page.html", Sources(), title="<b>", name="<script>alert(1)</script>")
    assert "&lt;script&gt;alert(1)" in text
    assert "<title>&lt;b&gt;</title>" in text


def test_a_value_that_is_missing_is_an_error(folder):
    with pytest.raises(UndefinedError, match="name"):
        render(folder, "page.html", Sources(), title="t")


def test_every_script_is_allowed_by_its_hash_and_data_cannot_end_its_element(folder):
    sources = Sources(scripts=["let x = 1;"], data={"numbers": ["</script><b>"]})
    text = render(folder, "page.html", sources, title="t", name="n")
    (policy,) = re.findall(r'Security-Policy" content="([^"]*)"', text)
    scripts = re.findall(r"<script>", text)
    assert policy.count("sha256-") == len(scripts) == 2
    assert text.count("</script>") == 3


def test_a_script_that_would_end_its_own_element_is_refused(folder):
    with pytest.raises(ValueError, match="end tag"):
        render(folder, "page.html", Sources(scripts=["'</SCRIPT>'"]), title="t", name="n")


def test_a_packed_script_is_allowed_by_the_hash_of_its_text(folder):
    script = "let y = '</script>';" * 1000
    text = render(folder, "page.html", Sources(packed={"large": script}), title="t", name="n")
    (packed,) = re.findall(r'<script type="application/octet-stream" id="large">([^<]*)</script>', text)
    assert len(packed) < len(script) / 3
    assert zlib.decompress(base64.b64decode(packed)).decode() == script
    assert source_hash(script) in unescape(text)


def test_a_server_sends_the_policy_of_a_page_as_a_header_too(folder):
    text = render(folder, "page.html", Sources(), allow={"form-action": "'self'"}, title='" onload="', name="n")
    policy = policy_of(text)
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert policy.endswith("form-action 'self'")
    with pytest.raises(ValueError, match="no security policy"):
        policy_of("<p>")
