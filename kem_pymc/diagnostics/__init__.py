"""Reading a posterior: do chains agree, what do they say, and how to combine them."""
