"""The pytest plugin: a fixture that checks ops and fails where one is slower, and a table of times after the tests.

In: a user's tests. Out: failures with their reason and how to reproduce them. pytest imports `plugin` in every run, so
everything else is imported by the fixture. No torch: implementations run in processes of their own.
"""
