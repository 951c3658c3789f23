"""Which failing operations block most models, and the cheapest sets of causes to mend next."""
