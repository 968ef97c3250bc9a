"""Rows of one kind form a tree."""

import numpy as np

from kernellab.traces.trace import Kind
from kernellab.traceview.row_tree import RowTree
from support.traced import AUTOGRAD, Program


def test_a_tree_finds_parents_paths_and_totals_at_any_depth():
    run = Program()
    with run.range("a"):
        with run.range("b"), run.range("a"):
            run.host(1)
        with run.range("c"):
            run.host(1)
    trace = run.trace()
    tree = RowTree(trace, trace.rows(Kind.RANGE))
    assert tree.parent.tolist() == [-1, 0, 1, 0]
    assert tree.depth.tolist() == [0, 1, 2, 1]
    assert tree.first_of_name().tolist() == [True, True, False, True]
    assert tree.totals(np.array([1, 1, 1, 1])).tolist() == [4, 2, 1, 1]
    numbers, paths = tree.paths(tree.name)
    assert [[trace.names[n] for n in paths[k]] for k in numbers] == [["a"], ["a", "b"], ["a", "b", "a"], ["a", "c"]]
    middle = tree.begin[[2, 3]] + 100
    assert tree.around(tree.lane[[2, 3]], middle).tolist() == [2, 3]
    assert tree.around(tree.lane[[0]], tree.end[[0]]).tolist() == [-1]


def test_rows_of_other_threads_are_adopted_by_the_open_row_of_the_main_thread():
    run = Program()
    with run.range("backward"):
        run.host(5)
        with run.on(AUTOGRAD), run.range("node"):
            run.host(5)
    trace = run.trace()
    tree = RowTree(trace, trace.rows(Kind.RANGE))
    node = next(at for at in range(2) if trace.names[tree.name[at]] == "node")
    assert tree.parent[node] == -1
    tree.adopt(int(tree.lane[1 - node]), tree.lane[[node]])
    assert tree.parent[node] == 1 - node
    assert tree.depth[node] == 1
