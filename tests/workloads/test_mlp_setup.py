"""Settings of the MLP that are refused."""

import pytest

from kernellab.base.errors import UserError
from kernellab.workloads.mlp_setup import MlpSetup


def test_capturing_needs_a_step_after_the_warm_up():
    with pytest.raises(UserError, match="11 steps are too few"):
        MlpSetup(8, 1, 1, 11).validate(capturing=True)
    MlpSetup(8, 1, 1, 12).validate(capturing=True)
    MlpSetup(8, 1, 1, 1).validate(capturing=False)


@pytest.mark.parametrize("name", ["dim", "layers", "batch", "steps"])
@pytest.mark.parametrize("size", [0, 2**31])
def test_sizes_have_bounds(name, size):
    sizes = {"dim": 8, "layers": 1, "batch": 1, "steps": 1, name: size}
    with pytest.raises(UserError, match=f"the MLP's {name} must be"):
        MlpSetup(**sizes).validate(capturing=False)


def test_the_json_is_that_of_the_setup():
    setup = MlpSetup(8, 1, 2, 3, optimizer="sgd", data=True, workers=2, device="cpu")
    assert MlpSetup(**setup.to_json()) == setup
