"""The proof that the kit bites: whatever is planted in this library, a law that anybody can import finds it."""

from __future__ import annotations

import pytest

from planted_faults import FAULTS, LAWS, Fault


@pytest.mark.no_cover  # other tests of the kit run every law where it holds
@pytest.mark.parametrize("name", LAWS)
def test_a_law_holds_where_nothing_is_planted(name: str) -> None:
    """The very examples that find the faults find nothing in what is sound."""
    LAWS[name]()


@pytest.mark.filterwarnings("ignore:Generating overly large repr")  # of a log that fails, which is not made smaller
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_planted_fault_is_found(fault: Fault) -> None:
    """The law fails while the fault is there."""
    with fault.plant(), pytest.raises(AssertionError):
        LAWS[fault.law]()
