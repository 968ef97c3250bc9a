"""Sentences for cooperation between threads and for branches."""

import pytest

from support.machine_code import explain_instruction


@pytest.mark.parametrize(
    ("text", "phrase"),
    [
        (
            "shfl.sync.bfly.b32 %r1, %r2, 16, 31, -1",
            "reads the value of %r2 in the thread whose index in the warp is this thread's, exclusive or 16, into %r1",
        ),
        ("bar.sync 0", "all threads of the block"),
        ("barrier.cluster.arrive.release.aligned", "all blocks of the cluster"),
        ("mbarrier.init.shared.b64 [%r1], 1", "for 1 arrival per phase"),
        ("mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r1], %r2", "sets %p1 to whether phase %r2"),
        ("griddepcontrol.wait", "launches this one depends on"),
        (
            "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1,%f2,%f3,%f4}, {%r1,%r2,%r3,%r4}, {%r5,%r6}, {%f1}",
            "4096 operations",
        ),
        (
            "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f1,%f2,%f3,%f4}, %rd1, %rd2, 1, 1, 1, 0, 0",
            "four warps",
        ),
        ("tcgen05.mma.cta_group::1.kind::f16 [%r1], %rd1, %rd2, %r2, %p1", "D in tensor memory at %r1"),
        ("vote.sync.ballot.b32 %r1, %p1, -1", "mask of the warp's threads"),
        ("bar.red.popc.u32 %r1, 0, %p1", "the number of its threads where %p1 is true goes into %r1"),
        ("bar.red.and.pred %p2, 1, 64, !%p1", "barrier 1; whether not %p1 is true in all its threads goes into %p2"),
        ("bra $L", "jumps to $L"),
        ("redux.sync.add.s32 %r1, %r2, -1", "computes the sum of %r2 over the threads of the warp"),
    ],
)
def test_the_sentence_contains_what_matters(text, phrase):
    assert phrase in explain_instruction(text)
