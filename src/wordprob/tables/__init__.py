"""Scored tables, and users' tables in and out."""
