"""What more than one page uses: the frame around them, choices, widgets, the log."""
