"""The built-in task `ledger`: word problems whose days are counted along the week."""
