"""Writing a failed trial as a script that needs only torch.

An op, an implementation, a trial and its outcome come in; the text of a script goes out. It repeats the trial's inputs
and call and prints what went wrong. Nothing here runs the script. Imports base, declaration, trials and checking.
"""
