"""The verifier's own test: wrong candidates that must be refused, honest ones that must not be, mutants, error rates.

entry       what an entry of the corpus is
subjects    the small stock models that entries act on
corpus/     the entries, by kind
judge       one candidate through the functions of production, cheapest first
run         the whole self-test with its rates
"""
