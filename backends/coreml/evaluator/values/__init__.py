"""The values of a program: their types, their limits, and arithmetic that ops share."""
