"""The classes of autotuners."""

from kernellab.activity.tuners import tuner_classes


def test_derived_classes_with_a_run_of_their_own_are_found_at_any_depth():
    class Tuner:
        def run(self): ...

    class Same(Tuner):
        pass

    class Other(Same):
        def run(self): ...

    assert tuner_classes(Tuner) == [Tuner, Other]
