"""Branches of one table compared, merged and published.

`heads` finds what two branches have in common, `rows` which rows differ, `merge` commits the changes of one
branch to another, and `publish` makes a branch what another one is.
"""
