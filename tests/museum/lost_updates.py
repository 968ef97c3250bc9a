"""`counts[i] += 1` with an index twice in i: read, add, write, and one of the two additions is lost.

Indexing with += gathers first and scatters last. It is a scatter-add only while no index repeats, which random
ids from a large range rarely do and token ids in a batch always do.
"""

import torch

import kernellab as kl

CAUGHT_BY = "indices"
SOURCE = "https://github.com/pymc-devs/pytensor/pull/2242"
NEEDS_GPU = False


@kl.op(
    args=dict(x=kl.tensor("M"), ids=kl.index("M", below=1 << 30)),
    cases=kl.cases(M=[1024], dtype=["float32"]),
)
def share(x, ids):
    """x divided by how often its id occurs."""
    _, place, counts = torch.unique(ids, return_inverse=True, return_counts=True)
    return x / counts[place]


@share.impl("python-right")
def _(x, ids):
    unique_ids, place = torch.unique(ids, return_inverse=True)
    counts = torch.zeros(unique_ids.shape, dtype=torch.int64, device=x.device)
    counts.index_add_(0, place, torch.ones_like(place))
    return x / counts[place]


@share.impl("python-wrong")
def _(x, ids):
    unique_ids, place = torch.unique(ids, return_inverse=True)
    counts = torch.zeros(unique_ids.shape, dtype=torch.int64, device=x.device)
    counts[place] += 1
    return x / counts[place]
