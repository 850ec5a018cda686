"""The built-in task `chain`: arithmetic rewritten one operator at a time."""
