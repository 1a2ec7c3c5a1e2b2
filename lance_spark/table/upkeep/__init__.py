"""Tables that look after themselves: what reads of a version do in vain, the steps that change it, and a budget for them."""
