"""Protocol times engine gives rows: what is executed, the unit that takes one window, and the process it runs in."""
