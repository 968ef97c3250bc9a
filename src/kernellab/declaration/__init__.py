"""What an op is: its declaration, cases, inputs and passes, and how a person names one."""
