"""Traces of programs: one table, whoever recorded it. No torch."""
