"""What several papers say of one supplier, and what was declared against what is printed.

compare.py  audit mode: declared values against one certificate
check.py    certificates of one batch against each other
"""
