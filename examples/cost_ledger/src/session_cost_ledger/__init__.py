"""What a session cost: tokens and money, by turn and by model.

Start from `CostLedger`, a projection that is given the prices; its view is a `Ledger`.
"""

from session_cost_ledger.ledger import Bill, CostLedger, Ledger, Line
from session_cost_ledger.prices import Model, Price, Prices, Tokens

__all__ = ["Bill", "CostLedger", "Ledger", "Line", "Model", "Price", "Prices", "Tokens"]
