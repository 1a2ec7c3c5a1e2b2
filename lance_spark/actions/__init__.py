"""Operations on a table as values: one file for each family, from which CALL, commands and pages of the documentation are made."""
