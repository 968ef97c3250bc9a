"""The process that trains the MLP."""

import json
import sys

import pytest

from kernellab.base.errors import UserError
from kernellab.running.programs import mlp


def test_running_out_of_memory_is_one_sentence(tmp_path, monkeypatch):
    setup = {"dim": 2**26, "layers": 1, "batch": 1, "steps": 20, "device": "cpu"}
    request = {"do": "train", "setup": setup, "folder": str(tmp_path)}
    monkeypatch.setattr(sys, "argv", ["", json.dumps(request)])
    with pytest.raises(SystemExit, match="klab: out of memory: "):
        mlp.main()


def test_an_error_is_printed_with_its_detail(monkeypatch, capsys):
    def mistaken(**_):
        raise UserError("a sentence", "and its detail")

    monkeypatch.setattr(mlp, "MlpSetup", mistaken)
    monkeypatch.setattr(sys, "argv", ["", json.dumps({"do": "train", "setup": {}, "folder": "."})])
    with pytest.raises(SystemExit):
        mlp.main()
    assert capsys.readouterr().err == "klab: a sentence\nand its detail\n"
