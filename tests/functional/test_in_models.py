"""The functions inside models: compiled, checkpointed, and distributed over processes."""

import subprocess
import sys

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from support.klab import HERE, klab_env
from support.models import gradients, make_batch, make_model
from support.serving import IN_MODEL


@pytest.fixture(scope="module")
def expected():
    return gradients(make_model(), *make_batch())


def test_a_model_compiles_as_one_graph_of_our_operators_whatever_the_size_of_the_batch(expected):
    from torch._dynamo.backends.common import aot_autograd

    torch._dynamo.reset()
    graphs = []

    def compiler(graph, inputs):
        graphs.append({node.target._opname for node in graph.graph.nodes if "kernellab" in str(node.target)})
        return graph.forward

    model = make_model()
    backend = aot_autograd(fw_compiler=compiler, bw_compiler=compiler)
    model.compile(fullgraph=True, backend=backend)
    torch.testing.assert_close(gradients(model, *make_batch()), expected)
    assert graphs == [IN_MODEL, {f"{op}_backward" for op in IN_MODEL}]
    for size in (3, 5, 7):
        torch.testing.assert_close(gradients(model, *make_batch(size)), gradients(make_model(), *make_batch(size)))
    assert len(graphs) == 4  # forward and backward, for the first size and for all others


@pytest.mark.parametrize("reentrant", [False, True])
def test_activations_can_be_computed_again_in_backward(reentrant, expected):
    model = make_model()
    x, target = make_batch()
    checkpoint(model, x.requires_grad_(), target, use_reentrant=reentrant).backward()
    torch.testing.assert_close({name: p.grad for name, p in model.named_parameters()}, expected)


def test_saved_tensors_can_be_moved_away_and_back(expected):
    model = make_model()
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: t.clone()):
        torch.testing.assert_close(gradients(model, *make_batch()), expected)


def test_two_processes_compute_the_gradients_of_one_by_ddp_and_by_fsdp(tmp_path):
    program = [sys.executable, str(HERE / "support" / "two_ranks.py")]
    env = klab_env(OMP_NUM_THREADS="1")
    env["PYTHONPATH"] += f":{HERE}"
    ranks = [
        subprocess.Popen([*program, str(rank), str(tmp_path / "store")], env=env, stderr=subprocess.PIPE, text=True)
        for rank in range(2)
    ]
    errors = [rank.communicate(timeout=120)[1] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], "\n".join(errors)
