"""Peer libraries: which are loaded, what they add to which ops, and what is said of one that is missing."""

from __future__ import annotations

import sys

import kernellab as kl
from kernellab.declaration.targets import Target, source_hash
from kernellab.peers import load, peer_names
from kernellab.record.settings import NO_CASES, Settings
from support.klab import HERE, SRC

SOFTMAX = Target("softmax", module="kernellab.ops.softmax", op="softmax", peers=peer_names())


def hide(monkeypatch, module):
    """Python finds no such module."""
    monkeypatch.setitem(sys.modules, module, None)


def test_an_op_gets_the_kernels_of_the_libraries_that_have_one(stand_ins):
    assert [name for name in load(SOFTMAX)["softmax"].impls if name in peer_names()] == ["flaggems", "liger", "quack"]
    square = load(Target("square", module="kernellab.ops.square", op="square", peers=peer_names()))["square"]
    assert not set(square.impls) & set(peer_names())
    assert square.peers == {}


def test_the_op_itself_stays_as_it_is(stand_ins):
    load(SOFTMAX)
    assert not set(kl.ops.softmax.impls) & set(peer_names())


def test_a_missing_library_is_left_out_with_what_to_install(stand_ins, monkeypatch):
    hide(monkeypatch, "liger_kernel")
    op = load(SOFTMAX)["softmax"]
    assert "liger" not in op.impls
    assert op.peers["liger"]["problem"].endswith(". To install it: pip install liger-kernel")
    assert op.peers["quack"] == {"package": "quack-kernels", "version": None, "problem": None}


def test_a_library_without_one_of_its_modules_keeps_its_other_kernels(stand_ins, monkeypatch):
    hide(monkeypatch, "quack.rotary")
    op = load(SOFTMAX)["softmax"]
    assert op.peers["quack"]["problem"] is None
    assert "quack" in op.impls


OWN = """
import torch, kernellab as kl

@kl.ops.softmax.impl("liger", kind="python")
def _(x):
    return torch.softmax(x, -1)

@kl.op
def gelu(x):
    return x
"""


def test_what_an_op_file_declares_takes_precedence(stand_ins, tmp_path):
    (tmp_path / "own.py").write_text(OWN)
    ops = load(Target("own.py", file=str(tmp_path / "own.py"), peers=peer_names()))
    assert ops["softmax"]["liger"].file == tmp_path / "own.py"
    assert "quack" in ops["softmax"].impls
    assert "flaggems" not in ops["gelu"].impls  # its own op, of a shipped op's name


def test_the_source_hash_follows_the_libraries_and_their_versions(stand_ins):
    op = load(SOFTMAX)["softmax"]
    with_peers = source_hash(op)
    op.peers["liger"]["version"] = "1.2.3"
    hashes = {source_hash(kl.ops.softmax), with_peers, source_hash(op)}
    assert len(hashes) == 3


def test_peers_are_added_to_the_chosen_implementations_or_chosen_by_name():
    def loaded_and_run(**chosen):
        settings = Settings(targets=["softmax"], stages=["check"], request=NO_CASES, **chosen)
        return settings.loaded_peers(), settings.impl_patterns()

    assert loaded_and_run() == ([], [])
    assert loaded_and_run(peers=["liger", "quack"]) == (["liger", "quack"], [])  # without a choice all run
    assert loaded_and_run(peers=["liger"], impls=["torch"]) == (["liger"], ["torch", "liger"])
    assert loaded_and_run(impls=["torch", "quack"]) == (["quack"], ["torch", "quack"])


def test_a_command_runs_what_there_is_and_says_once_what_is_missing(klab, tmp_path):
    (tmp_path / "liger_kernel.py").write_text("""raise ModuleNotFoundError("No module named 'liger_kernel'")""")
    path = f"{SRC}:{tmp_path}:{HERE / 'peers' / 'libraries'}"
    words = ("check", "softmax", "--shape", "4x8", "--device", "cpu", "--impl")
    seen = klab(*words, "torch", "--peers", PYTHONPATH=path)
    assert seen.code == 0, seen.err
    assert "\n flaggems  right in Triton's interpreter" in seen.out
    assert "\n quack     skipped: needs a GPU" in seen.out
    problem = "No module named 'liger_kernel'. To install it: pip install liger-kernel"
    assert (seen.out + seen.err).count(f"liger is left out: {problem}\n") == 1
    named = klab(*words, "torch,liger", PYTHONPATH=path)
    assert (named.code, named.err.splitlines()[-1]) == (2, f"klab: liger cannot be used: {problem}")
