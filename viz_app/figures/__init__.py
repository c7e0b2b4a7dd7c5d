"""Arrays and labels in, Plotly figure out; every colour is in ``theme``."""
