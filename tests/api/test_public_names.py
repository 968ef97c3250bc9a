"""The public API on one page: `import kernellab as kl`."""

import subprocess
import sys

import pytest

import kernellab as kl
from support.klab import klab_env


def test_importing_kernellab_imports_no_torch():
    code = "import sys, kernellab; assert 'torch' not in sys.modules; assert 'gelu' in dir(kernellab.ops)"
    subprocess.run([sys.executable, "-c", code], check=True, env=klab_env())


@pytest.mark.parametrize("name", [name for name in kl.__all__ if not name.startswith("_")])
def test_a_public_name_is_the_object_of_that_name(name):
    value = getattr(kl, name)
    assert value.__name__.rpartition(".")[2] == name
    assert vars(kl)[name] is value  # the second use does not go through __getattr__


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = kl.nothing
    with pytest.raises(AttributeError, match="ships no op"):
        _ = kl.ops.nothing
