"""All tests; conftest.py has what they share."""
