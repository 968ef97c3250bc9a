"""The messages between parent and worker: commands to the worker, events from it, each declared once.

Both sides import this package; it holds declarations only. Importing it declares every event that a worker may send.
Imports base and record; no torch.
"""

from kernellab.running.protocol import commands as commands
from kernellab.running.protocol import events as events
