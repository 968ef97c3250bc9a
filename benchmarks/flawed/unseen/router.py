"""Flaw: one thread per token of a router over 64 experts, with 32 words of each token contiguous in shared memory.

All words that a warp accesses at once are in one bank, and the accesses are serialised. Fixed: one word of padding
after each token.
"""

import torch

import kernellab as kl

EXPERTS, TOKENS = 64, 128
plain, padded = (kl.cuda.kernel("experts.cu", f"route<{words}>") for words in (32, 33))


@kl.op(
    args=dict(x=kl.tensor("M E")),
    where=lambda case: case.E == EXPERTS,
    reduces="E",
    dtypes=["bfloat16"],
    cases=kl.cases(M=[1 << 21], E=[EXPERTS], dtype=["bfloat16"], cpu=dict(M=[64], E=[EXPERTS], dtype=["bfloat16"])),
)
def router(x):
    return torch.softmax(x, dim=-1)


def launch(kernel, x):
    x = x.contiguous()
    if x.storage_offset() % 2:  # two elements are read at once, from where a word begins
        x = x.clone()
    y = torch.empty_like(x)
    if y.numel():
        kernel(-(-x.shape[0] // TOKENS), TOKENS, x, y, x.shape[0])
    return y


def halves(case):
    return case.dtype == "bfloat16" or "bfloat16 only"


router.impl("flawed", kind="cuda", supports=halves)(lambda x: launch(plain, x))
router.impl("fixed", kind="cuda", supports=halves)(lambda x: launch(padded, x))
