"""A batch is one command of klab, which measures exactly the times that it is asked for."""

from kernellab.cli import parse
from kernellab.comparison.pairs import ResultKey, SeriesKey
from kernellab.remeasuring.batches import make_batches, shape


def key(impl="triton", sizes=(256, 256), dtype="float32", timer="clock", op="gelu", **options):
    dims = {"...": list(sizes[:-1]), "N": sizes[-1]}
    case = {"dims": dims, "dtype": dtype, "options": options, "layout": "contiguous", "device": "cpu"}
    return SeriesKey(ResultKey(op, impl, case), "forward", timer, "cold")


def test_implementations_and_sizes_share_a_process():
    keys = [
        key(),
        key("torch"),
        key(sizes=(512, 512)),
        key(dtype="bfloat16"),
        key(timer="host"),
        key(approximate="none"),
    ]
    batches = make_batches(keys, str)
    assert [len(batch.keys) for batch in batches] == [3, 1, 1, 1]
    words = batches[0].words(["gelu"], seed=7, seconds=0.5, out="folder")
    verb, args = parse(words)
    assert (verb.name, args.target, args.impl, args.seed) == ("bench", ["gelu"], "triton,torch", 7)
    assert args.shape == ["256x256,512x512"]
    assert args.only_times
    assert parse(batches[3].words(["gelu"], seed=0, seconds=1, out="x"))[1].opt == ["approximate=none"]


def test_ops_at_one_place_share_a_process_where_nothing_else_would_be_measured():
    alike = [key(op=op, impl=impl) for op in ("gelu", "silu") for impl in ("triton", "torch")]
    other_impls, other_sizes = key(op="square"), key(op="softmax", sizes=(8, 8))
    batches = make_batches([*alike, other_impls, other_sizes], lambda op: "one place")
    assert [list(batch.ops) for batch in batches] == [["gelu", "silu"], ["square"], ["softmax"]]
    _, args = parse(batches[0].words(["f.py:gelu", "f.py:silu"], seed=0, seconds=1, out="x"))
    assert (args.target, args.impl) == (["f.py:gelu", "f.py:silu"], "triton,torch")
    assert len(make_batches(alike, lambda op: op)) == 2


def test_a_hostile_text_is_a_value_and_no_option():
    hostile = key(impl="--out=/etc", dtype="--debug", timer="--json")
    words = make_batches([hostile], str)[0].words(["gelu"], seed=0, seconds=1, out="folder")
    _, args = parse(words)
    assert (args.out, args.debug, args.json) == ("folder", False, False)


def test_sizes_of_named_dims_are_in_order():
    assert shape({"dims": {"M": 3, "V": 5}}) == "3x5"
    assert shape({"dims": {"...": [], "N": 4}}) == "4"
