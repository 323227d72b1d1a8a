"""What every level may use: nothing here knows a dialect."""
