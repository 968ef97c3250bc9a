"""Whose fault an error is where there is no GPU."""

import pytest

from kernellab.interpreter.fault import CannotInterpret, StaticAssertFailed, missing_gpu


class InterpreterError(Exception):
    """Named as Triton's."""


def raised(cause):
    try:
        try:
            raise cause
        except Exception as error:
            raise InterpreterError(str(error)) from error
    except InterpreterError as error:
        return error


@pytest.mark.parametrize(
    "message",
    [
        "Torch not compiled with CUDA enabled",
        "0 active drivers ([]). There should only be one.",
        "Found no NVIDIA driver on your system.",
        "Could not find `libcublas.so`. Make sure it is in your LD_LIBRARY_PATH.",
        "Could not run 'lib::op' with arguments from the 'CPU' backend.",
    ],
)
def test_a_missing_gpu_is_not_the_implementations_fault(message):
    assert missing_gpu(RuntimeError(message)) == f"needs a GPU: RuntimeError: {message}"


def test_other_errors_of_a_wrapper_are_its_own():
    assert missing_gpu(RuntimeError("shapes cannot be multiplied")) is None
    assert missing_gpu(TypeError("active drivers")) is None


def test_an_authors_refusal_and_an_undefined_name_in_a_kernel_are_its_own():
    assert missing_gpu(raised(StaticAssertFailed("N too large"))) is None
    assert missing_gpu(raised(NameError("name 'y' is not defined"))) is None


def test_what_the_interpreter_cannot_do_is_not_the_kernels_fault():
    assert missing_gpu(raised(CannotInterpret("it has no dot_scaled"))) == (
        "Triton's interpreter cannot run it: it has no dot_scaled"
    )
    limit = missing_gpu(raised(AttributeError("'int' object has no attribute 'value'")))
    assert limit.startswith("Triton's interpreter cannot run it: AttributeError: 'int' object has no attribute 'value'")
