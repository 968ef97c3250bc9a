"""How the reasons of failures begin. The check writes these sentences; search and reproduction recognise them."""

from __future__ import annotations

VALUES = "values: "
CHANGED_INPUT = "changed its input "
CHANGED_UPSTREAM = "changed its upstream gradient"
RETURNED_INPUT = "returned the memory of its input "
RETURNED = "returned "
WROTE_OUTSIDE_INPUT = "wrote outside one of its inputs"
WROTE_OUTSIDE_ALLOCATION = "wrote outside the memory it had allocated"
READS_OUTSIDE = "reads outside its inputs"
NOT_REPEATABLE = "not repeatable"
SECOND_CALL = "its second call changed what the first had returned"
LATER_CALL = "its call on other inputs changed what an earlier one had returned"
LATER_BACKWARD = "a later backward changed the gradients that an earlier one had returned"
NOTHING_COMPILED = "torch.compile compiled nothing"
OPCHECK = "torch.library.opcheck: "
GRADCHECK = "gradcheck: "
FORMS = ("shape", "dtype", "device", "strides")  # the first word, where the form of a result differs
