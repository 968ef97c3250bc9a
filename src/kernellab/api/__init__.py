"""The functions behind `kl.*`."""
