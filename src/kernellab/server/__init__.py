"""The history in a browser: a web server for this machine alone, which only reads.

`access` lets nobody in without the token of the printed address. No request changes anything: all are GET or HEAD.
"""
