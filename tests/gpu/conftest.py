import gc

import pytest


@pytest.fixture(autouse=True)
def memory_is_given_back():
    """Several tests run at a time, and the commands that they start need memory of the GPU too."""
    yield
    import torch

    gc.collect()
    torch.cuda.empty_cache()
