"""`klab tune`: measures the implementations of an op on this device, and writes the table that chooses among them.

The sizes to measure (`ladder`), the choice at each of them (`winners`), rules for ranges of sizes (`regions`), the file
(`table_text`), and the order in which all this happens (`tuner`). The measuring itself is that of `klab bench`, the
verification that of `klab check`. No torch.
"""
