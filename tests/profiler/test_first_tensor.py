"""When a program first works with tensors."""

import importlib
import os
import sys

import pytest
import torch
from torch.overrides import BaseTorchFunctionMode, _get_current_function_mode_stack

from kernellab.profiler import first_tensor
from kernellab.profiler.first_tensor import FirstTensorWork


def in_inference_mode():
    with torch.inference_mode():
        torch.ones(3).sin()


def on_another_device():
    with torch.device("meta"):
        assert torch.ones(3).sin().device.type == "meta"


def our_modes():
    return sum(type(mode).__module__ == first_tensor.__name__ for mode in _get_current_function_mode_stack())


@pytest.mark.parametrize("work", [lambda: torch.ones(3).sin(), in_inference_mode, on_another_device])
def test_the_action_is_called_at_the_first_tensor_of_the_program(work):
    modes_at_begin = []
    first = FirstTensorWork(lambda: modes_at_begin.append(our_modes()))
    torch.cuda.is_available()
    assert modes_at_begin == []
    work()
    work()
    assert modes_at_begin == [0]
    assert our_modes() == 0
    assert torch.ones(3).device.type == "cpu"
    assert 0 < first.seconds < 60


def test_tensors_created_by_imports_do_not_count(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "modules", sys.modules.copy())
    (tmp_path / "with_a_constant.py").write_text("import torch\nMEAN = torch.ones(3)\n")
    began = []
    first = FirstTensorWork(lambda: began.append(1))
    imported = importlib.import_module("with_a_constant")
    assert (began, first.seen_in_imports) == ([], True)
    imported.MEAN.sin()
    assert began == [1]


def test_a_forked_process_is_not_observed():
    first = FirstTensorWork(lambda: None)
    child = os.fork()
    if not child:
        os._exit(our_modes())
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert our_modes() == 1
    first.cancel()
    assert our_modes() == 0


def test_a_torch_function_mode_of_the_program_stays_in_place():
    began = []
    FirstTensorWork(lambda: began.append(1))
    with BaseTorchFunctionMode() as own:
        torch.ones(3)
        assert _get_current_function_mode_stack() == [own]
    assert _get_current_function_mode_stack() == []
    assert began == [1]
