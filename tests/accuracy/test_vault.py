"""The oracle is unreadable while it is locked, and the same afterwards."""

import contextlib
import gc

import pytest
import torch

from kernellab.accuracy.prepared_trial import TrialPreparer
from kernellab.accuracy.vault import OracleDisturbed, Vault
from kernellab.declaration.targets import load, resolve
from kernellab.trials.trial import Trial

CPU = torch.device("cpu")


class Keeper:
    """Keeps keys in this process, which a test may look at."""

    def __init__(self):
        self.keys = {}

    def keep(self, key, checksum):
        self.keys[len(self.keys)] = (key, checksum)
        return len(self.keys) - 1

    def release(self, ticket):
        return self.keys.pop(ticket, None)


@pytest.fixture(scope="module", params=["forward", "backward"])
def prepared(request):
    op = next(iter(load(resolve("softmax")).values()))
    case = op.case(
        {"dims": {"...": [5], "N": 67}, "dtype": "float32", "options": {}, "layout": "contiguous", "device": "cpu"}
    )
    preparer = TrialPreparer(
        op, seed=0, device=CPU, running=lambda impl, phase: contextlib.nullcontext(), distrusted=frozenset()
    )
    made = preparer.prepare(Trial("declared", case, pass_name=request.param))
    made.perturbed.oracles()  # cached: they tell the result too
    return made


def secrets_of(prepared):
    return (*prepared.oracle, *prepared.peer, *(t for outputs in prepared.perturbed.oracles() for t in outputs))


def test_what_is_unlocked_has_the_same_bits_and_what_is_locked_has_not(prepared):
    vault = Vault(Keeper())
    locked = vault.lock(prepared)
    for plain, hidden in zip(secrets_of(prepared), secrets_of(locked.prepared), strict=True):
        assert hidden.stride() == plain.stride()
        assert not torch.isclose(hidden.double(), plain.double(), rtol=1e-2).double().mean() > 0.1
    unlocked = vault.unlock(locked)
    assert all(map(torch.equal, secrets_of(unlocked), secrets_of(prepared)))
    assert unlocked.perturbed._oracle[0] is unlocked.oracle[0]


def test_the_inputs_stay_what_they_are(prepared):
    locked = Vault(Keeper()).lock(prepared)
    assert locked.prepared.inputs is prepared.inputs
    assert locked.prepared.pristine is prepared.pristine


def test_a_key_that_was_taken_or_a_lock_that_was_filled_is_noticed(prepared):
    keeper = Keeper()
    vault = Vault(keeper)
    locked = vault.lock(prepared)
    assert keeper.release(locked.ticket)
    with pytest.raises(OracleDisturbed, match="asked for the oracle"):
        vault.unlock(locked)
    locked = vault.lock(prepared)
    locked.prepared.oracle[0].fill_(torch.nan)
    with pytest.raises(OracleDisturbed, match="changed what its result is compared with"):
        vault.unlock(locked)


def test_a_tensor_that_belongs_to_somebody_else_is_not_changed(prepared):
    before = [t.clone() for t in prepared.oracle]
    Vault(Keeper()).lock(prepared)
    assert all(map(torch.equal, before, prepared.oracle))


def test_the_garbage_collector_finds_no_readable_oracle(prepared):
    locked = Vault(Keeper()).lock(prepared)
    oracle = prepared.oracle[0]
    known = {id(t) for t in secrets_of(prepared)} | {id(t) for t in prepared.oracle}
    gc.collect()
    tensors = [t for t in gc.get_objects() if type(t) is torch.Tensor and id(t) not in known]
    # A nested tensor, which a test before this may have left, has no shape to ask for.
    dense = [t for t in tensors if t.layout is torch.strided and not t.is_nested]
    same_form = [t for t in dense if t.shape == oracle.shape and t.dtype == oracle.dtype]
    assert any(t is locked.prepared.oracle[0] for t in same_form)
    assert not any(torch.allclose(t, oracle, rtol=1e-3, atol=1e-6) for t in same_form)


def test_without_a_keeper_nothing_is_locked(prepared):
    vault = Vault()
    assert vault.unlock(vault.lock(prepared)) is prepared
