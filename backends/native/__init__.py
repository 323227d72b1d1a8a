"""Machine code for the CPU that padc runs on."""
