import torch


def apply_rotary_emb(
    x, cos, sin, interleaved=False, inplace=False, seqlen_offsets=None, cu_seqlens=None, max_seqlen=None
):
    """x is [batch, position, head, column]."""
    assert x.shape[-1] % 8 == 0, "headdim must be divisible by 8"
    assert x.shape[-1] <= 512, "Only support headdim <= 512"
    assert cos.shape[0] >= x.shape[1], "seqlen_ro must be >= seqlen"
    assert not inplace
    cos, sin = (table[None, : x.shape[1], None, :] for table in (cos, sin))
    a, b = x.unflatten(-1, (-1, 2)).unbind(-1) if interleaved else x.chunk(2, -1)
    turned = a * cos - b * sin, b * cos + a * sin
    return torch.stack(turned, -1).flatten(-2) if interleaved else torch.cat(turned, -1)
